"""The policy that `ingle route new` writes: comments show what can be changed."""

POLICY_TEMPLATE = """\
# What may leave this machine, and where `auto` and other routes lead.
# Nothing leaves without a provider: `ingle provider add` sets one up.
# `ingle route check` validates this file; it takes effect when it is saved.

# Your own words and folders: text that names one of them stays here.
words = []
# words = ["Project Heron", "Anna Example"]
folders = []
# folders = ["~/clients", "~/tax"]

# Findings that are less certain than this are ignored: 0 is the most careful.
least_certainty = 0.5

# The class of each kind of finding; `ingle route --json` shows the defaults.
#   never          stays here, always
#   redact         leaves only with a placeholder in its place
#   ask            leaves only with your consent
#   allow          may leave
[classes]
# person = "never"             # a name alone (default: ask)
# person_in_context = "never"  # a name beside contacts, health, money, law … (default: redact)
# organisation = "allow"       # (default: ask)
# file_path = "ask"            # (default: redact)

# The route `auto` always exists.
[routes.auto]
# local = ""                # the local model; empty is the default model
# cloud = ""                # "provider/model"; empty is the first model of the first provider
# prefer = "cloud"          # harmless requests: "cloud", or "local"
# escalate = []             # with prefer = "local": "uncertain", "valuable", or both
# redact = "ask"            # placeholders: "never", "ask" for consent, or "always" without it
# judge = false             # true: also ask a loaded model of at least a billion parameters

# Another route, which can be used by its name.
# [routes.work]
# description = "Own model first, the cloud if it is uncertain"
# prefer = "local"
# escalate = ["uncertain", "valuable"]
# redact = "always"
# classes = { organisation = "never" }   # only stricter ones, unless override = true
"""
