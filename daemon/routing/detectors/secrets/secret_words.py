"""Words for passwords and keys, in many languages, in lower case."""

from __future__ import annotations

from ..context_words import Phrases

PASSWORDS = Phrases((
    "password", "passwort", "passwd", "passphrase", "passcode", "pwd", "kennwort", "mot de passe",
    "motdepasse", "contraseña", "contrasena", "senha", "wachtwoord", "hasło", "haslo", "lösenord",
    "adgangskode", "passord", "salasana", "heslo", "jelszó", "parola", "şifre", "пароль", "密码",
    "密碼", "パスワード", "비밀번호", "p4ssw0rd", "passw0rd", "p@ssword", "p@ssw0rd", "pa55word",
    "pin code", "pin-code", "pincode", "pin number", "mot_de_passe", "login pw",
    "losenord", "zugangscode", "kodeord", "passeord", "пароля", "паролем", "гасло", "парола",
    "lozinka", "geslo", "slaptažodis", "parool", "parolă", "fjalëkalim", "lykilorð",
    "palavra-passe",
    "palavra passe", "κωδικός πρόσβασης", "סיסמה", "סיסמא", "كلمة المرور", "كلمة السر", "رمز عبور",
    "पासवर्ड", "รหัสผ่าน", "mật khẩu", "kata sandi", "kata laluan", "nenosiri", "암호",
    "暗証番号", "パスコード", "口令", "code wifi", "code wi-fi", "wlan-schlüssel", "wlan-code",
    "wifi key", "wi-fi key",
))  # fmt: skip
"""Words with no other meaning, wherever they occur."""
SHORT_PASSWORDS = Phrases(
    "pass pw psw psk mdp pword passkey contra parol sandi requirepass".split(),  # noqa: SIM905
    whole=True,
)
"""Words with other meanings, too, so that an assignment sign must follow."""
KEYS = Phrases((
    "api key", "api_key", "apikey", "api-key", "access key", "access_key", "access-key",
    "accesskey", "secret", "token", "private_key", "private key", "privatekey", "auth_key",
    "authkey", "signing_key", "signing key", "encryption_key", "encryption key", "master key",
    "master_key", "license_key", "licence key", "license key", "credential", "account_key",
    "accountkey", "sharedaccesskey", "session_key", "client_key", "webhook_key", "service_key",
    "schlüssel", "clave", "clé", "chave", "密钥", "recovery code", "backup code", "2fa code",
    "chiave", "klucz", "nyckel", "nøgle", "nøkkel", "sleutel", "ключ", "anahtar", "cheie", "klíč",
    "avain", "apiキー", "アクセスキー", "시크릿", "api 키", "密鑰", "令牌", "トークン", "токен",
    "jeton", "payment_key", "deploy_key", "app_key", "secret_key",
))  # fmt: skip
