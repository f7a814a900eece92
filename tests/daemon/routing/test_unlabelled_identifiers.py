"""Identifiers without a check digit or field name: passwords in commands, columns and prose."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors

SCANNER = Scanner(structured_detectors(OwnWords()))


def kinds(text: str) -> set[tuple[FindingKind, str]]:
    found = SCANNER.scan([TextPart("messages[0].content", text)])
    return {(finding.kind, text[finding.start : finding.end]) for finding in found}


def rows_of(kind: FindingKind, *rows: tuple[str, str]) -> list[tuple[FindingKind, str, str]]:
    return [(kind, span, text) for span, text in rows]


FOUND = [
    *rows_of(
        FindingKind.PASSWORD,
        ("Tr4ktor1987rot", "Zugang: Gast, Passwort Tr4ktor1987rot"),
        ("KqWxRtBnZpLs", "the password for the old printer is KqWxRtBnZpLs I think"),
        ("Zeb#ra44", "le mot de passe de la box est Zeb#ra44 depuis hier"),
        ("l0rry!Green7", "Σύνδεση: password l0rry!Green7"),
        ("Kite77Moon!", "パスワードは Kite77Moon! でした"),
        ("Sonne#1987k", "пароль от роутера Sonne#1987k не подходит"),
        ("Hell3nicBay", "wifi pw: Hell3nicBay"),
        ("gj#2b0pQx", "imap:\n  host: mail\n  pass: gj#2b0pQx"),
        ("n0tT0day!", "mdp: n0tT0day!"),
        ("MyPassword1", "password: MyPassword1"),
        ("Winter77!", "mysqldump -h db1 -u root -pWinter77! shop > dump.sql"),
        ("Winter77", "sshpass -p Winter77 ssh build@db1"),
        ("pl3ase-Open", "unzip -P pl3ase-Open backup.zip"),
        ("Winter77", "docker login registry.acme.io -u bot -p Winter77"),
        ("Winter77", "redis-cli -h cache -a Winter77 ping"),
        ("Winter77", "xfreerdp /u:bob /p:Winter77 /v:pc1"),
        ("Winter77", "echo 'bob:Winter77' | sudo chpasswd"),
        ("Winter77", "CREATE USER bob IDENTIFIED BY 'Winter77';"),
        ("Winter77", "ALTER ROLE bob WITH LOGIN PASSWORD 'Winter77'"),
        ("Winter77", "username bob privilege 15 secret 0 Winter77"),
        ("Ym9iOldpbnRlcjc3", '{"auths": {"r.acme.io": {"auth": "Ym9iOldpbnRlcjc3"}}}'),
        ("{SSHA}" + "aB3/" * 9, "userPassword: {SSHA}" + "aB3/" * 9),
        ("s7Kq2pLx9w", "- name: DB_PASSWORD\n  value: s7Kq2pLx9w"),
    ),
    *rows_of(
        FindingKind.API_KEY,
        ("q8Zr4Tn1Lw7Vb3Ks5Xd9", "la clave del API q8Zr4Tn1Lw7Vb3Ks5Xd9 caducó"),
        ("q8Zr4Tn1Lw7Vb3Ks5Xd9", '{"name": "APP_SECRET", "value": "q8Zr4Tn1Lw7Vb3Ks5Xd9"}'),
        ("q8Zr4Tn1Lw7Vb3Ks5Xd9", "it asks for MAPS_API_KEY, ours is q8Zr4Tn1Lw7Vb3Ks5Xd9."),
        ("glrtr-" + "aB3_" * 6, "glrtr-" + "aB3_" * 6),
        ("sha256~" + "aB3" * 14 + "x", "oc login --token=sha256~" + "aB3" * 14 + "x"),
    ),
    *rows_of(
        FindingKind.CONNECTION_STRING,
        (
            "jdbc:mariadb://db1/x?user=a&password=Wint7",
            "url: jdbc:mariadb://db1/x?user=a&password=Wint7",
        ),
    ),
    *rows_of(
        FindingKind.CARD,
        ("4539-5787-6362-1486", "卡号是4539-5787-6362-1486,谢谢"),
        ("8600 3142 5364 7582", "kartam 8600 3142 5364 7582"),
        ("381", "4539 5787 6362 1486, on the back: 381"),
    ),
    *rows_of(
        FindingKind.BANK_ACCOUNT,
        ("4471220983", "routing as before, account 4471220983"),
        ("20 1234 5678 9012 3456 7890 1234", "rachunek nr 20 1234 5678 9012 3456 7890 1234"),
        ("0044712209", "compte n° 0044712209"),
    ),
    *rows_of(
        FindingKind.PASSPORT,
        ("CN48FK0RR", "Reisepassnummer CN48FK0RR, gültig"),
        ("NXP7KL2B4", "paspoort nr. NXP7KL2B4"),
        ("C7RZ2LKFM", "Reisepass-Nr. C7RZ2LKFM"),
        ("TK7654321", "パスポート番号 TK7654321 です"),
        ("K8291043", "bot: And the passport number?\nme: K8291043"),
        (
            "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10",
            "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10",
        ),
    ),
    *rows_of(
        FindingKind.DRIVING_LICENCE,
        ("MORGA657054SM9IJ", "his licence: MORGA657054SM9IJ"),
        ("B072RRE2I55", "Führerschein-Nr. B072RRE2I55"),
    ),
    *rows_of(
        FindingKind.NATIONAL_ID,
        ("1.020.304.050", "C.C. 1.020.304.050 de Cali"),
        ("123 456 788", "TAJ szám: 123 456 788"),
        ("039095001234", "căn cước công dân số 039095001234"),
        ("123456782", "תעודת זהות 123456782"),
        ("61101-1234567-1", "shanakhti card 61101-1234567-1"),
    ),
    *rows_of(
        FindingKind.HEALTH_ID,
        ("1234-567-890-AB", "OHIP 1234-567-890-AB"),
    ),
    *rows_of(
        FindingKind.TAX_ID,
        ("01234567890", "P. IVA 01234567890"),
        ("2345678901", "РНОКПП 2345678901"),
    ),
    *rows_of(
        FindingKind.VEHICLE,
        ("AB-123-CD", "ma voiture immatriculée AB-123-CD"),
        ("ZH 123456", "Kontrollschild ZH 123456"),
        ("34 ABC 123", "plakası 34 ABC 123"),
        ("М123ОР 77", "госномер М123ОР 77"),
        ("AB12CDE", "the van outside, AB12CDE, blocks us"),
        ("MH12AB1234", "challan for MH12AB1234"),
    ),
    *rows_of(
        FindingKind.DATE_OF_BIRTH,
        ("昭和60年3月5日", "生年月日:昭和60年3月5日"),
        ("1990. 3. 5.", "생년월일 1990. 3. 5."),
        ("5 марта 1990 года", "дата рождения: 5 марта 1990 года"),
        ("05/03/1990", "תאריך לידה 05/03/1990"),
        ("1990-03-05", "id,name,birth_date\n7,Ann,1990-03-05"),
        ("05.03.1990", "| Nr | Geburtsdatum |\n|---|---|\n| 7 | 05.03.1990 |"),
        ("1990-03-05", "INSERT INTO staff (name, dob) VALUES ('A (b), c', '1990-03-05');"),
    ),
    *rows_of(
        FindingKind.FILE_PATH,
        (r"\\nas\homes\marie\tax 2023.pdf", r"open \\nas\homes\marie\tax 2023.pdf please"),
        ("/export/home/marie/x.tex", "see /export/home/marie/x.tex"),
        (r"C:\Users\Marie\My CV 2.docx", r"see C:\Users\Marie\My CV 2.docx now"),
        (
            "/Users/marie/Library/Application Support/a.db",
            "rm '/Users/marie/Library/Application Support/a.db'",
        ),
    ),
    *rows_of(
        FindingKind.SECRET_PATH,
        ("/run/secrets/smtp", "cat /run/secrets/smtp"),
        ("~/.cargo/credentials.toml", "ls ~/.cargo/credentials.toml"),
        ("ops/kubeconfig.yaml", "git add ops/kubeconfig.yaml"),
        ("lastpass_export.csv", "delete lastpass_export.csv"),
        ("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_rsa_key"),
    ),
    *rows_of(FindingKind.MAC_ADDRESS, ("02f7.cb13.c48b", "link/ether 02f7.cb13.c48b brd")),
    *rows_of(FindingKind.PHONE, ("0501234567", "мій номер 0501234567")),
]


@pytest.mark.parametrize(("kind", "span", "text"), FOUND, ids=[f"{k}-{t}" for k, _, t in FOUND])
def test_unlabelled_identifier_is_found(kind: FindingKind, span: str, text: str) -> None:
    assert (kind, span) in kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "Passwords are hashed with PBKDF2-SHA256 as NIST-800-63B asks",
        "password BCryptPasswordEncoder and password KeePassXC2",
        "the password policy of Windows11 and Office365",
        "password Base64Encoder, password OAuth2Client, password Log4jAppender",
        "the password for the iPhone15Pro or the account of Windows2022Server is lost",
        "PASS: test_login_2024 (0.02s)",
        "module.exports = {password: readPassword, secrets: SecretsOpt, token_ids_0=token_ids_0}",
        "const passwordPrompt = 'npm password: '",
        "pass: true\nsecond pass: 12.5ms",
        "pw = 2*p1+q22",
        "docker login -u me --password-stdin",
        "zip -r out.zip folder -x '*.git*'",
        "openssl enc -aes-256-cbc -pass env:KEY -in a -out b",
        "ALTER USER app WITH PASSWORD '${DB_PASSWORD}';",
        "CREATE USER x IDENTIFIED BY '<password>';",
        '{"auth": "required"}',
        "| Field | Type |\n|---|---|\n| password | string |",
        "| Token | Id |\n|---|---|\n| hello | 15339 |",
        "country,birth rate\nFrance,10.9\nSpain,7.5",
        "INSERT INTO packages (name, license) VALUES ('left-pad', 'GPL-3.0');",
        "La ville compte 2500000 habitants",
        "acc: 0.98765432, val_acc: 0.9123456",
        "account 2 000 000 visits since 2023-12-31",
        "the car has a VW12 engine and AC22 charging",
        "license plate recognition with YOLOv8",
        "code 123 after 8600 steps, crypto 747",
        "route 2001:db8::/32 via 192.0.2.7, 198.51.100.3 or 203.0.113.9",
        "write to you@example.com or test@example.org",
        "how do kubeconfig contexts work?",
    ],
)
def test_similar_text_is_not_found(text: str) -> None:
    assert kinds(text) == set()


PUBLIC_EXAMPLES = [
    "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "token eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiw"
    "iaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "Stripe's test card is 4242 4242 4242 4242, Visa's 4111-1111-1111-1111",
    "SSN: 123-45-6789, as in the film, or 078-05-1120",
    "ping 192.0.2.1, 198.51.100.7, 203.0.113.9 and 2001:db8::1",
    "maria.keller@example.com, bob@mail.example, root@db.test",
    "password: changeme",
    "PGPASSWORD=your_password psql",
]


@pytest.mark.parametrize("text", PUBLIC_EXAMPLES)
def test_published_example_is_not_found(text: str) -> None:
    assert kinds(text) == set()


@pytest.mark.parametrize(
    "before", ["IBAN ", "my IBAN: ", "Kontonummer (IBAN) ", "Bank account IBAN\n"]
)
@pytest.mark.parametrize("behind", ["", " OK", " VISA 12/27", " and BIC COBADEFFXXX", " FOR RENT"])
@pytest.mark.parametrize("value", ["DE89 3704 0044 0532 0130 00", "NL91ABNA0417164300"])
def test_span_of_an_account_has_no_words(before: str, behind: str, value: str) -> None:
    found = {span for _, span in kinds(f"Pay to {before}{value}{behind}") if value[:9] in span}
    assert found == {value}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("C01X00T47", "passport C01X00T47 VISA 12/27"),
        ("536-90-4399", "SSN 536-90-4399 OK"),
        ("86095742719", "Steuer-ID 86095742719 BITTE PRÜFEN"),
    ],
)
def test_span_of_a_document_has_no_words(value: str, text: str) -> None:
    assert {span for _, span in kinds(text)} == {value}
