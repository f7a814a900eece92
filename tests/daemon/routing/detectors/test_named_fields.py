"""Columns and fields: their names say what their values are."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.named_fields import find_named_fields

pytestmark = pytest.mark.quick

# Written before the table of names was.
TEXTS = [
    (
        ("name,city,score\nRuth Okafor,Lagos,81\nBertalan Nagy,Pécs,77\n"),
        ["Ruth Okafor", "Bertalan Nagy"],
    ),
    (
        (
            "first_name,last_name,email,dept\n"
            "Mira,Kovács,mira@corp-x.hu,Sales\n"
            "Joao,Tavares,jt@corp-x.hu,IT\n"
        ),
        ["Mira", "Kovács", "mira@corp-x.hu", "Joao", "Tavares"],
    ),
    (
        (
            "Customer\tAddress\tTotal\n"
            "Quillfeather\t22 Rathmore Park\t19.90\n"
            "Oduya\tKossuth utca 14\t7.00\n"
        ),
        ["Quillfeather", "22 Rathmore Park", "Oduya", "Kossuth utca 14"],
    ),
    (
        (
            "Nachname;Vorname;Geburtsdatum;Mitgliedsnummer\n"
            "Wischnewski;Tamme;03.07.1981;M-20931\n"
            "Özdil;Gül;11.12.1990;M-20944\n"
        ),
        ["Wischnewski", "Tamme", "03.07.1981", "M-20931", "Özdil", "Gül"],
    ),
    (
        (
            '"id","full name","case no"\n'
            '"1","Harrow, Iris","C/2291-B"\n'
            '"2","Penn, Otis","C/2304-A"\n'
        ),
        ["Harrow, Iris", "Penn, Otis", "C/2291-B"],
    ),
    (
        (
            "| Patient | Room | MRN |\n"
            "|---|---|---|\n"
            "| Selma Brandvold | 12 | 771-204 |\n"
            "| Ivo Petrak | 14 | 771-219 |\n"
        ),
        ["Selma Brandvold", "771-204", "Ivo Petrak"],
    ),
    (
        (
            "INSERT INTO users (id, username, full_name, phone) VALUES (1, 'rokafor', 'Ruth O"
            "kafor', '555 0199'), (2,'bnagy','Bertalan Nagy','555 0144');"
        ),
        ["Ruth Okafor", "555 0199", "Bertalan Nagy"],
    ),
    (
        (
            '{"name": "Ruth Okafor", "address": {"street": "22 Rathmore Park", "postal_code":'
            ' "D06"}, "member_id": "LX-99213"}'
        ),
        ["Ruth Okafor", "22 Rathmore Park", "LX-99213"],
    ),
    (
        (
            '[{"patientName":"Selma Brandvold","dateOfBirth":"1981-07-03","phoneNumber":"06 1'
            '234567"}]'
        ),
        ["Selma Brandvold", "1981-07-03", "06 1234567"],
    ),
    (
        (
            "customer:\n"
            "  name: Ruth Okafor\n"
            "  address: 22 Rathmore Park\n"
            "  account_number: 8812-33\n"
        ),
        ["Ruth Okafor", "22 Rathmore Park", "8812-33"],
    ),
    (
        (
            "From: Ruth Okafor <ruth@okafor.example.net>\n"
            "To: Bertalan Nagy <bn@nagy.hu>\n"
            "Subject: lunch\n"
            "\n"
            "See you at noon.\n"
        ),
        ["Ruth Okafor", "Bertalan Nagy"],
    ),
    (
        (
            "BEGIN:VCARD\n"
            "VERSION:3.0\n"
            "N:Okafor;Ruth;;;\n"
            "FN:Ruth Okafor\n"
            "TEL;TYPE=cell:+353 86 123 4567\n"
            "ADR;TYPE=home:;;22 Rathmore Park;Dublin;;D06;Ireland\n"
            "BDAY:1981-07-03\n"
            "END:VCARD\n"
        ),
        ["Ruth Okafor", "22 Rathmore Park", "1981-07-03"],
    ),
    (
        ("nom;prénom;adresse;téléphone\nQuéméneur;Yann;3 venelle du Puits;02 98 00 11 22\n"),
        ["Quéméneur", "Yann", "3 venelle du Puits", "02 98 00 11 22"],
    ),
    (
        (
            "nombre,apellidos,fecha de nacimiento,nº de socio\n"
            "Itziar,Goikoetxea Larra,3/7/1981,S-4417\n"
        ),
        ["Itziar", "Goikoetxea Larra", "3/7/1981", "S-4417"],
    ),
    (
        ("cognome,nome,indirizzo\nBevilacqua,Duilio,vicolo Stretto 4\n"),
        ["Bevilacqua", "Duilio", "vicolo Stretto 4"],
    ),
    (
        ("nome,morada,telefone\nZulmira Fontes,Beco do Rosário 9,21 555 0199\n"),
        ["Zulmira Fontes", "Beco do Rosário 9"],
    ),
    (
        ("naam;adres;geboortedatum\nSjoukje de Vries;Zeedijk 12;3-7-1981\n"),
        ["Sjoukje de Vries", "Zeedijk 12", "3-7-1981"],
    ),
    (
        ("imię,nazwisko,adres,numer pacjenta\nJagoda,Wróbel,ul. Cicha 7,P-3301\n"),
        ["Jagoda", "Wróbel", "ul. Cicha 7", "P-3301"],
    ),
    (
        ("ФИО;адрес;телефон\nСтоянова Вера Ильинична;ул. Тихая, 7;8 912 000-11-22\n"),
        ["Стоянова Вера Ильинична", "ул. Тихая, 7"],
    ),
    (
        ("姓名,地址,电话\n欧阳静,青石巷12号,13800001111\n"),
        ["欧阳静", "青石巷12号", "13800001111"],
    ),
    (
        ("氏名,住所,生年月日\n小鳥遊 蓮,青葉町3-7,1981/07/03\n"),
        ["小鳥遊 蓮", "青葉町3-7", "1981/07/03"],
    ),
    (
        ("이름,주소,전화번호\n남궁윤,청석로 12,010-1234-0000\n"),
        ["남궁윤", "청석로 12"],
    ),
    (
        ("الاسم,العنوان,رقم الهاتف\nليلى الهاشمي,شارع النخيل 7,0501234567\n"),
        ["ليلى الهاشمي", "شارع النخيل 7"],
    ),
    (
        ("नाम,पता,फ़ोन\nमीरा त्रिवेदी,शांति गली 7,9812345678\n"),
        ["मीरा त्रिवेदी", "शांति गली 7"],
    ),
    (
        ("ad soyad,adres,doğum tarihi\nGülizar Şahinoğlu,Sessiz Sokak 7,03.07.1981\n"),
        ["Gülizar Şahinoğlu", "Sessiz Sokak 7"],
    ),
    (
        ("förnamn,efternamn,adress\nTorgny,Lindkvist,Tysta gränden 7\n"),
        ["Torgny", "Lindkvist", "Tysta gränden 7"],
    ),
    (
        ("jméno;příjmení;adresa\nBožena;Vrbová;Tichá 7\n"),
        ["Božena", "Vrbová", "Tichá 7"],
    ),
    (
        (
            "Name: Ruth Okafor\n"
            "Date of birth: 3 July 1981\n"
            "Address: 22 Rathmore Park\n"
            "Membership number: LX 99213\n"
        ),
        ["Ruth Okafor", "22 Rathmore Park", "LX 99213", "3 July 1981"],
    ),
]
HARMLESS = [
    (
        '{"name": "left-pad", "version": "1.3.0", "description": "pad", "author": "npm", '
        '"license": "MIT"}'
    ),
    ("name,qty,price\nbolt,12,0.10\nnut,40,0.05\n"),
    (
        "apiVersion: v1\n"
        "kind: Service\n"
        "metadata:\n"
        "  name: web-frontend\n"
        "  namespace: prod\n"
        "spec:\n"
        "  ports:\n"
        "  - name: http\n"
        "    port: 80\n"
    ),
    (
        "name: CI\n"
        "on: [push]\n"
        "jobs:\n"
        "  build:\n"
        "    name: Build and test\n"
        "    runs-on: ubuntu-latest\n"
    ),
    ('[project]\nname = "ingle"\nversion = "0.1"\n'),
    (
        '{"type":"function","function":{"name":"get_weather","parameters":{"type":"object'
        '","properties":{"address":{"type":"string","description":"The address"},"email":'
        '{"type":"string"}}}}}'
    ),
    ("country,capital,population\nFrance,Paris,67\nPeru,Lima,33\n"),
    "CREATE TABLE users (id INT, name TEXT, email TEXT, phone TEXT);",
    "INSERT INTO products (id, name, price) VALUES (1, 'Lamp', 9.5), (2, 'Desk', 99);",
    ("class User:\n    name: str\n    email: str\n    address: str | None = None\n"),
    ("def greet(name: str, phone: str = None) -> str:\n    return name\n"),
    ("From: node:20-alpine\nTo: registry\n"),
    ("city,country\nLagos,Nigeria\nPécs,Hungary\n"),
    ("account: default\nregion: eu-west-1\nname: my-bucket\n"),
    "interface Person { name: string; address: string; phone: string }",
    ("server:\n  address: 0.0.0.0:8080\n  contact: ops\n"),
    ("From: Subject lines that work\nTo whom it may concern"),
    ("Name: lodash\nVersion: 4.17.21\nSummary: utilities\nAddress-book: no\n"),
]


@pytest.mark.parametrize(("text", "values"), TEXTS)
def test_values_are_found_by_the_name_of_their_column_or_field(
    text: str, values: list[str]
) -> None:
    covered = {
        place for found in find_named_fields(text) for place in range(found.start, found.end)
    }
    for value in values:
        start = text.index(value)
        assert covered >= set(range(start, start + len(value))), value


@pytest.mark.parametrize("text", HARMLESS)
def test_names_of_things_are_not_found(text: str) -> None:
    assert [text[found.start : found.end] for found in find_named_fields(text)] == []


def test_plain_name_counts_only_beside_another_field_of_a_person() -> None:
    far = "name: Ruth Okafor\n" + "note: nothing\n" * 60 + "phone: 353861234567\n"
    assert [f.kind.value for f in find_named_fields(far)] == ["phone"]
    near = "name: Ruth Okafor\nnote: nothing\nphone: 353861234567\n"
    assert [f.kind.value for f in find_named_fields(near)] == ["person", "phone"]


def test_values_have_the_kind_that_their_name_says() -> None:
    text = (
        '{"patientId": "P-3301", "memberNumber": "LX 99213", "dob": "1981-07-03",'
        ' "addressLine2": "Flat 3"}'
    )
    found = {text[f.start : f.end]: f.kind.value for f in find_named_fields(text)}
    assert found == {
        "P-3301": "health_id",
        "LX 99213": "account_number",
        "1981-07-03": "date_of_birth",
        "Flat 3": "street_address",
    }
