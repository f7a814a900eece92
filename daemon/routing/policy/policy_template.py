"""The policy that `ingle route new` writes: it changes nothing, and shows what could be changed."""

POLICY_TEMPLATE = """\
# What may leave this machine, and where `auto` and other routes lead.
# Nothing leaves without a provider: `ingle provider add` sets one up.
# `ingle route check` says whether this file is right; it counts as soon as it is saved.

# Your own words and folders: what names one of them stays here.
words = []
# words = ["Project Heron", "Anna Example"]
folders = []
# folders = ["~/clients", "~/tax"]

# Findings that are less certain than this do not count: 0 is the most careful.
least_certainty = 0.5

# The class of each kind of finding; what is not listed is as `ingle route --json` says.
#   never          stays here, always
#   redact         leaves only with a placeholder in its place
#   ask            leaves only after your yes
#   allow          may leave
[classes]
# person = "never"             # a name alone (default: ask)
# person_in_context = "never"  # a name beside contacts, health, money, law … (default: redact)
# organisation = "allow"       # (default: ask)
# file_path = "ask"            # (default: redact)

# The route `auto` is always there.
[routes.auto]
# local = ""                # the model here; empty is the default model
# cloud = ""                # "provider/model"; empty is the first model of the first provider
# prefer = "cloud"          # harmless requests: "cloud", or "local"
# escalate = []             # with prefer = "local": "uncertain", "valuable", or both
# redact = "ask"            # placeholders: "never", "ask" for a yes, or "always" without one
# judge = false             # true: a loaded model of a billion parameters or more is asked, too

# Another route, which may be asked for by its name.
# [routes.work]
# description = "Own model first, the cloud where it is unsure"
# prefer = "local"
# escalate = ["uncertain", "valuable"]
# redact = "always"
# classes = { organisation = "never" }   # only stricter ones, unless override = true
"""
