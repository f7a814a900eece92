"""Formats of keys and tokens, from their vendors' documentation."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..finding import FindingKind

_WORD = "[A-Za-z0-9_-]"
_PLAIN = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


class TokenFormat(NamedTuple):
    """Every match of `pattern` contains `piece`; a search for that first makes it fast."""

    piece: str
    pattern: re.Pattern[str]
    kind: FindingKind


# The prefix of the token, and what follows it; most vendors use distinctive prefixes.
_PREFIXED: tuple[tuple[str, str], ...] = (
    # Clouds and hosting
    ("AKIA", "[A-Z0-9]{16}"),  # AWS
    ("ASIA", "[A-Z0-9]{16}"),
    ("ABIA", "[A-Z0-9]{16}"),
    ("ACCA", "[A-Z0-9]{16}"),
    ("ABSK", "[A-Za-z0-9+/]{80,200}={0,2}"),  # Bedrock
    ("amzn.mws.", _UUID),
    ("AIza", f"{_WORD}{{35}}"),  # Google
    ("GOCSPX-", f"{_WORD}{{28}}"),
    ("ya29.", f"{_WORD}{{20,400}}"),
    ("1//0", f"{_WORD}{{30,200}}"),
    ("LTAI", f"{_PLAIN}{{12,24}}"),  # Alibaba
    ("AKID", f"{_PLAIN}{{32}}"),  # Tencent
    ("AQVN", f"{_WORD}{{35,38}}"),  # Yandex
    ("y0_", f"{_WORD}{{50,80}}"),
    ("dop_v1_", f"{_HEX}{{64}}"),  # DigitalOcean
    ("doo_v1_", f"{_HEX}{{64}}"),
    ("dor_v1_", f"{_HEX}{{64}}"),
    ("HRKU-", f"{_WORD}{{36,80}}"),  # Heroku
    ("nfp_", f"{_PLAIN}{{36,50}}"),  # Netlify
    ("vcp_", f"{_PLAIN}{{24,80}}"),  # Vercel
    ("rnd_", f"{_PLAIN}{{28,40}}"),  # Render
    ("fo1_", f"{_WORD}{{40,60}}"),  # Fly.io
    ("fm2_", "[A-Za-z0-9+/=_-]{60,600}"),
    ("v1.0-", f"{_HEX}{{24}}-{_HEX}{{100,200}}"),  # Cloudflare
    ("cfut_", f"{_PLAIN}{{40,60}}"),
    ("cfat_", f"{_PLAIN}{{40,60}}"),
    ("SCW", "[A-Z0-9]{17}"),  # Scaleway
    ("K00", f"{_WORD}{{28}}"),  # Backblaze
    ("sqa_", f"{_HEX}{{40}}"),
    ("YCA", f"{_WORD}{{38}}"),
    ("sha256~", f"{_WORD}{{43}}"),  # OpenShift
    ("vercel_blob_rw_", f"{_PLAIN}{{12,20}}_{_PLAIN}{{24,40}}"),
    ("tskey-", f"{_PLAIN}{{3,12}}-{_WORD}{{12,64}}"),  # Tailscale
    # Code, packages, builds
    ("apify_api_", f"{_PLAIN}{{30,50}}"),
    ("sgp_", f"{_HEX}{{40}}"),  # Sourcegraph
    ("tk-us-", f"{_WORD}{{40,60}}"),  # Scalingo
    ("AVNS_", f"{_WORD}{{15,40}}"),  # Aiven
    ("ghp_", f"{_PLAIN}{{30,255}}"),  # GitHub
    ("gho_", f"{_PLAIN}{{30,255}}"),
    ("ghu_", f"{_PLAIN}{{30,255}}"),
    ("ghs_", f"{_PLAIN}{{30,255}}"),
    ("ghr_", f"{_PLAIN}{{30,255}}"),
    ("github_pat_", f"{_WORD}{{40,255}}"),
    ("glpat-", "[A-Za-z0-9_.-]{20,300}"),  # GitLab
    ("gldt-", f"{_WORD}{{20,64}}"),
    ("glrt-", f"{_WORD}{{20,64}}"),
    ("glptt-", f"{_WORD}{{20,64}}"),
    ("glcbt-", f"{_WORD}{{20,64}}"),
    ("glagent-", f"{_WORD}{{40,64}}"),
    ("gloas-", f"{_WORD}{{40,64}}"),
    ("glft-", f"{_WORD}{{20,64}}"),
    ("glimt-", f"{_WORD}{{20,64}}"),
    ("glsoat-", f"{_WORD}{{20,64}}"),
    ("glffct-", f"{_WORD}{{20,64}}"),
    ("glrtr-", f"{_WORD}{{20,64}}"),
    ("ATTA", f"{_HEX}{{64,80}}"),  # Trello
    ("cmVmdGtu", f"{_PLAIN}{{48,64}}"),  # JFrog
    ("hvr.", f"{_WORD}{{24,300}}"),
    ("dp.", f"(?:sa|ct|scim|audit)\\.{_PLAIN}{{40,44}}"),
    ("GR1348941", f"{_WORD}{{20}}"),
    ("ATATT3", "[A-Za-z0-9_=-]{60,300}"),  # Atlassian
    ("ATCTT3", "[A-Za-z0-9_=-]{60,300}"),
    ("ATBB", f"{_PLAIN}{{32}}"),
    ("npm_", f"{_PLAIN}{{36}}"),
    ("pypi-", f"{_WORD}{{50,255}}"),
    ("rubygems_", f"{_HEX}{{48}}"),
    ("oy2", "[a-z0-9]{43}"),  # NuGet
    ("dckr_pat_", f"{_WORD}{{20,64}}"),
    ("dckr_oat_", f"{_WORD}{{20,64}}"),
    ("CLOJARS_", "[a-z0-9]{60}"),
    ("AKCp", f"{_PLAIN}{{60,80}}"),  # JFrog
    ("API-", "[A-Z0-9]{25,33}"),  # Octopus
    ("CCIPAT_", f"{_WORD}{{30,100}}"),  # CircleCI
    ("bkua_", f"{_HEX}{{40}}"),  # Buildkite
    ("sqp_", f"{_HEX}{{40}}"),  # Sonar
    ("squ_", f"{_HEX}{{40}}"),
    ("PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}"),  # Postman
    ("pul-", f"{_HEX}{{40}}"),  # Pulumi
    ("hvs.", f"{_WORD}{{24,200}}"),  # Vault
    ("hvb.", f"{_WORD}{{24,300}}"),
    ("dp.pt.", f"{_PLAIN}{{40,44}}"),  # Doppler
    ("dp.st.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("ops_eyJ", f"{_WORD}{{200,2000}}"),  # 1Password
    ("sntrys_", "[A-Za-z0-9+/=_]{60,300}"),  # Sentry
    ("sntryu_", f"{_HEX}{{64}}"),
    ("glsa_", f"{_PLAIN}{{32}}_{_HEX}{{8}}"),  # Grafana
    ("glc_", "[A-Za-z0-9+/=]{32,400}"),
    ("NRAK-", "[A-Z0-9]{27}"),  # New Relic
    ("NRII-", f"{_WORD}{{32}}"),
    ("dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),  # Dynatrace
    ("phx_", f"{_PLAIN}{{40,60}}"),  # PostHog
    # Models
    ("sk-ant-", f"{_WORD}{{20,200}}"),
    ("sk-or-v1-", f"{_HEX}{{40,64}}"),
    ("sk-lf-", _UUID),
    ("sk-", f"(?:(?:proj|svcacct|admin|None)-)?{_WORD}{{20,220}}"),  # OpenAI and compatible ones
    ("sess-", f"{_PLAIN}{{40}}"),
    ("hf_", f"{_PLAIN}{{30,64}}"),
    ("api_org_", f"{_PLAIN}{{30,64}}"),
    ("r8_", f"{_PLAIN}{{37}}"),  # Replicate
    ("gsk_", f"{_PLAIN}{{40,64}}"),  # Groq
    ("xai-", f"{_PLAIN}{{60,100}}"),
    ("pplx-", f"{_PLAIN}{{32,64}}"),
    ("nvapi-", f"{_WORD}{{40,100}}"),
    ("csk-", f"{_PLAIN}{{40,64}}"),  # Cerebras
    ("fw_", f"{_PLAIN}{{20,40}}"),  # Fireworks
    ("tgp_v1_", f"{_WORD}{{40,60}}"),  # Together
    ("pcsk_", f"{_WORD}{{40,90}}"),  # Pinecone
    ("lsv2_", f"(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),  # LangSmith
    ("llx-", f"{_PLAIN}{{40,64}}"),  # LlamaIndex
    ("pa-", f"{_WORD}{{43}}"),  # Voyage
    ("BSA", f"{_WORD}{{28}}"),  # Brave
    ("hcaik_01", f"{_PLAIN}{{58}}"),  # Honeycomb
    ("tvly-", f"{_WORD}{{24,64}}"),
    ("jina_", f"{_WORD}{{40,80}}"),
    ("fc-", f"{_HEX}{{32}}"),
    ("e2b_", f"{_HEX}{{40}}"),
    ("KGAT_", f"{_HEX}{{32}}"),
    # Messaging and mail
    ("xox", "[abceoprs]-[A-Za-z0-9-]{10,255}"),  # Slack
    ("xoxe.xox", "[bp]-[A-Za-z0-9-]{20,255}"),
    ("xapp-", r"\d-[A-Z0-9]+-\d+-[a-z0-9]{20,100}"),
    ("SG.", f"{_WORD}{{16,32}}\\.{_WORD}{{30,64}}"),  # SendGrid
    ("key-", f"{_HEX}{{32}}"),  # Mailgun
    ("xkeysib-", f"{_HEX}{{64}}-{_PLAIN}{{16}}"),  # Brevo
    ("re_", f"{_PLAIN}{{8}}_{_PLAIN}{{20,40}}"),  # Resend
    ("mlsn.", f"{_HEX}{{60,70}}"),
    ("SK", f"{_HEX}{{32}}"),  # Twilio
    ("mfa.", f"{_WORD}{{80,90}}"),  # Discord
    # Payments and shops
    ("sk_live_", f"{_WORD}{{16,128}}"),  # Stripe and similar ones
    ("sk_test_", f"{_WORD}{{16,128}}"),
    ("rk_live_", f"{_PLAIN}{{16,128}}"),
    ("rk_test_", f"{_PLAIN}{{16,128}}"),
    ("whsec_", "[A-Za-z0-9+/=]{24,64}"),
    ("shpat_", "[0-9a-fA-F]{32}"),  # Shopify
    ("shpca_", "[0-9a-fA-F]{32}"),
    ("shppa_", "[0-9a-fA-F]{32}"),
    ("shpss_", "[0-9a-fA-F]{32}"),
    ("sq0atp-", f"{_WORD}{{22}}"),  # Square
    ("sq0csp-", f"{_WORD}{{43}}"),
    ("EAAA", f"{_WORD}{{60}}"),
    ("access_token$", f"(?:production|sandbox)\\$[0-9a-z]{{16}}\\${_HEX}{{32}}"),  # PayPal
    ("access-", f"(?:sandbox|development|production)-{_UUID}"),  # Plaid
    ("rzp_live_", f"{_PLAIN}{{14,24}}"),
    ("FLWSECK", f"(?:_TEST)?-{_PLAIN}{{12,64}}(?:-X)?"),
    ("EZAK", f"{_PLAIN}{{54}}"),
    ("EZTK", f"{_PLAIN}{{54}}"),
    ("APP_USR-", f"\\d{{12,20}}-\\d{{6}}-{_HEX}{{32}}-\\d{{6,12}}"),  # Mercado Pago
    ("xnd_", f"(?:production|development)_{_PLAIN}{{40,64}}"),
    ("pdl_", f"(?:live|sdbx)_apikey_{_PLAIN}{{26}}_{_PLAIN}{{22}}_{_PLAIN}{{3}}"),  # Paddle
    ("sk_car_", f"{_PLAIN}{{20,24}}"),  # Cartesia
    ("shippo_live_", f"{_HEX}{{40}}"),
    ("duffel_live_", f"{_WORD}{{43}}"),
    # Work, data and social networks
    ("EAA", f"{_PLAIN}{{80,300}}"),  # Facebook
    ("IGQV", f"{_WORD}{{80,300}}"),
    ("lin_api_", f"{_PLAIN}{{40}}"),  # Linear
    ("lin_oauth_", f"{_HEX}{{64}}"),
    ("secret_", f"{_PLAIN}{{43}}"),  # Notion
    ("ntn_", f"{_PLAIN}{{40,60}}"),
    ("figd_", f"{_WORD}{{40,50}}"),
    ("tfp_", "[A-Za-z0-9_.=-]{40,60}"),
    ("pat-", f"[a-z]{{2,3}}\\d-{_UUID}"),  # HubSpot
    ("pat", f"{_PLAIN}{{14}}\\.{_HEX}{{64}}"),  # Airtable
    ("CFPAT-", f"{_WORD}{{43}}"),
    ("sl.", f"{_WORD}{{100,200}}"),  # Dropbox
    ("dapi", f"{_HEX}{{32}}(?:-\\d)?"),  # Databricks
    ("sbp_", f"{_HEX}{{40}}"),  # Supabase
    ("sb_secret_", f"{_WORD}{{20,60}}"),
    ("pscale_tkn_", f"{_WORD}{{30,64}}"),
    ("pscale_pw_", f"{_WORD}{{30,64}}"),
    ("pscale_oauth_", f"{_WORD}{{30,64}}"),
    ("pat.", f"{_WORD}{{20,24}}\\.{_HEX}{{24}}\\.{_PLAIN}{{20}}"),  # Harness
    ("sdk-", _UUID),  # LaunchDarkly
    ("s-s4t2ud-", f"{_HEX}{{64}}"),
    ("signkey-prod-", f"{_HEX}{{64}}"),  # Inngest
    ("tr_", f"(?:prod|dev|stg)_{_PLAIN}{{20,32}}"),
    ("bb_live_", f"{_WORD}{{24,40}}"),
    ("zpka_", f"{_HEX}{{32}}_{_HEX}{{8}}"),  # Zuplo
    ("sm_pat_", f"{_PLAIN}{{16,40}}"),
    ("pk_", r"\d{6,12}_[A-Z0-9]{30,34}"),  # ClickUp
    ("napi_", f"{_PLAIN}{{40,80}}"),  # Neon
    ("ico-", f"{_PLAIN}{{32}}"),
    ("rdme_", "[a-z0-9]{70}"),
    ("waka_", _UUID),  # WakaTime
    ("aio_", f"{_PLAIN}{{28}}"),  # Adafruit
    ("pnu_", f"{_PLAIN}{{36}}"),
    ("fio-u-", f"{_WORD}{{64}}"),
    ("BBFF-", f"{_PLAIN}{{30}}"),
)
_UNLIKE_OTHERS: tuple[tuple[str, str, FindingKind], ...] = (
    ("eyJ", r"eyJ[\w-]{8,4000}+\.eyJ[\w-]{4,8000}+\.[\w-]{0,2000}+", FindingKind.JWT),
    ("eyJ", r"eyJ[\w-]{16,2000}+\.\.?[\w-]{0,1000}+\.[\w-]{16,8000}+\.[\w-]{16,64}",
     FindingKind.JWT),
    ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows)/[\w/+]{20,100}+",
     FindingKind.TOKEN),
    ("/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{16,20}/[\w-]{40,90}",
     FindingKind.TOKEN),
    (".webhook.office.com", r"[\w-]{2,60}\.webhook\.office\.com/\S{40,400}", FindingKind.TOKEN),
    (":AA", r"\d{8,10}:AA[\w-]{32,35}", FindingKind.TOKEN),  # Telegram
    (".", r"[MNO][A-Za-z0-9_-]{23,28}\.[\w-]{6}\.[\w-]{27,40}", FindingKind.TOKEN),  # Discord
    ("Q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}", FindingKind.API_KEY),  # Azure
    ("JQQJ99", r"[A-Za-z0-9]{50,54}JQQJ99[A-Za-z0-9]{20,26}", FindingKind.API_KEY),
    ("-us", r"[0-9a-f]{32}-us\d{1,2}", FindingKind.API_KEY),  # Mailchimp
    (".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,70}", FindingKind.TOKEN),  # Terraform
    ("AAAAAAAAAAAAAAAAAAAAA", r"A{21,24}[A-Za-z0-9%]{60,110}", FindingKind.TOKEN),  # X
    ("AZDO", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", FindingKind.API_KEY),
    ("_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", FindingKind.API_KEY),  # MaxMind
    ("sk.eyJ", r"sk\.eyJ[\w-]{40,200}\.[\w-]{20,30}", FindingKind.API_KEY),  # Mapbox
    ("{SSHA", r"\{S?SHA(?:256|384|512)?\}[A-Za-z0-9+/]{24,180}={0,2}", FindingKind.PASSWORD),
    ("{SMD5", r"\{SMD5\}[A-Za-z0-9+/]{20,60}={0,2}", FindingKind.PASSWORD),
    ("scrypt:", r"scrypt:\d{3,8}:\d{1,3}:\d{1,3}\$[^\s$]{4,64}\$[0-9a-f]{64,256}",
     FindingKind.PASSWORD),
    ("pbkdf2", r"pbkdf2[:_]sha\d{1,3}[:$]\d{3,8}\$[^\s$]{4,64}\$[A-Za-z0-9+/=]{32,256}",
     FindingKind.PASSWORD),
    ("aad3b435b51404ee", r"[0-9a-f]{32}:[0-9a-f]{32}", FindingKind.PASSWORD),  # Windows
    ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,60}", FindingKind.PRIVATE_KEY),
    ("AGE-PLUGIN-", r"AGE-PLUGIN-[A-Z0-9-]{2,20}-1[0-9A-Z]{20,200}", FindingKind.PRIVATE_KEY),
    ("sig=", r"(?<=[?&])sig=[\w%+/-]{40,120}", FindingKind.TOKEN),  # Azure's signed URLs
    ("Signature=", r"X-Amz-Signature=[0-9a-f]{64}", FindingKind.TOKEN),
    ("$", r"\$(?:2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}|(?:argon2id?|scrypt|[156y]|7|md5)\$"
          r"[^\s:\"']{8,250})", FindingKind.PASSWORD),  # password hashes
)  # fmt: skip


def token_shapes() -> tuple[TokenFormat, ...]:
    """Return all formats, compiled; those that are prefixes of others come later."""
    shapes = [
        TokenFormat(piece, _alone(re.escape(piece) + rest), _kind(piece))
        for piece, rest in _PREFIXED
    ]
    shapes += [TokenFormat(piece, _alone(rest), kind) for piece, rest, kind in _UNLIKE_OTHERS]
    return tuple(shapes)


def _alone(pattern: str) -> re.Pattern[str]:
    # The literal comes first and the look-behind last: a search for a literal is many times faster
    # than one that begins with a condition.
    return re.compile(f"(?:{pattern})(?![A-Za-z0-9])")


def _kind(piece: str) -> FindingKind:
    session = ("gh", "xox", "ya29", "EAA", "IGQV", "sess-", "y0_", "mfa.")
    return FindingKind.TOKEN if piece.startswith(session) else FindingKind.API_KEY
