"""Requests that a text stays here, and marks that it is confidential."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors

pytestmark = pytest.mark.quick

SCANNER = Scanner([one for one in structured_detectors(OwnWords()) if one.name == "marks"])

# Written before the words of the detector were.
REQUESTS = [
    "keep this local please: what are good names for a bakery?",
    "Keep all processing on-prem. Summarise the steps for a rollout.",
    "Nothing of this may go to the cloud. How do I sort a list in Rust?",
    "Please don't send this to any external service: rewrite my paragraph about oak trees.",
    "this must not leave my machine: explain quicksort",
    "Use only the local model for this one. Translate 'good morning' to French.",
    "Do not upload this anywhere. Make a table of the seasons.",
    "For your eyes only. Draft an outline on tidal power.",
    "answer this offline, without sending it to OpenAI or anyone else",
    "I don't want this going to any third party, what rhymes with orange?",
    "stay on device for this: proofread the next line",
    "Bitte nur lokal verarbeiten: wie backe ich Brot?",
    "Das darf nicht in die Cloud. Erklär mir Quicksort.",
    "Nichts davon darf meinen Rechner verlassen: fasse den Text zusammen.",
    "Schick das bitte an keinen externen Dienst. Was ist ein Verb?",
    "Das bleibt unter uns: welche Namen passen zu einer Bäckerei?",
    "Garde ça en local s'il te plaît : propose un titre.",
    "Rien de ceci ne doit partir dans le cloud. Explique le tri rapide.",
    "Ne pas envoyer à un service externe. Corrige la phrase suivante.",
    "Cela ne doit pas quitter ma machine : résume le texte.",
    "Que esto se quede en local: propón un título.",
    "Nada de esto puede ir a la nube. Explica quicksort.",
    "No envíes esto a ningún servicio externo, corrige la frase.",
    "Esto no debe salir de mi ordenador: resume el texto.",
    "Tienilo in locale per favore: proponi un titolo.",
    "Niente di tutto questo deve finire nel cloud. Spiega quicksort.",
    "Non inviare questo testo a servizi esterni.",
    "Mantém isto local, por favor: sugere um título.",
    "Nada disto pode ir para a nuvem. Explica o quicksort.",
    "Não envie isso para nenhum serviço externo.",
    "Houd dit lokaal alsjeblieft: bedenk een titel.",
    "Dit mag niet naar de cloud. Leg quicksort uit.",
    "Stuur dit niet naar een externe dienst.",
    "Zachowaj to lokalnie, proszę: zaproponuj tytuł.",
    "Nic z tego nie może trafić do chmury. Wyjaśnij quicksort.",
    "Nie wysyłaj tego na zewnątrz.",
    "Пожалуйста, обрабатывай это только локально: придумай заголовок.",
    "Ничего из этого не должно попасть в облако. Объясни quicksort.",
    "Не отправляй это никуда, исправь предложение.",
    "Обробляй це лише локально: запропонуй назву.",
    "Це не повинно потрапити в хмару.",
    "请把这个保留在本地：给面包店起个名字。",
    "这些内容不得上传到云端。解释快速排序。",
    "不要发送给任何第三方，帮我改一下这句话。",
    "これはローカルだけで処理してください。タイトルを考えて。",
    "この内容はクラウドに送らないでください。",
    "外部に送信しないで、文章を直して。",
    "이건 로컬에서만 처리해 주세요. 제목을 제안해 줘.",
    "이 내용은 클라우드로 보내지 마세요.",
    "أبقِ هذا محليًا من فضلك: اقترح عنوانًا.",
    "لا ترسل هذا إلى السحابة. اشرح الفرز السريع.",
    "इसे लोकल ही रखना: एक शीर्षक सुझाओ।",
    "इसे क्लाउड पर मत भेजो।",
    "Bunu yerelde tut lütfen: bir başlık öner.",
    "Bunların hiçbiri buluta gitmesin.",
    "Håll detta lokalt, tack: föreslå en titel.",
    "Skicka inte detta till molnet.",
    "Zpracuj to prosím jen lokálně: navrhni název.",
    "Nic z toho nesmí do cloudu.",
    "Hold det her lokalt: foreslå en titel.",
    "Pidä tämä paikallisena: ehdota otsikkoa.",
    "Ezt csak helyben dolgozd fel: javasolj címet.",
    "Păstrează asta local: propune un titlu.",
    "Hãy giữ cái này ở máy cục bộ, đừng gửi lên đám mây.",
    "Simpan ini secara lokal, jangan kirim ke cloud.",
]
# Two sets written after them, each before it was measured: 8 and 12 of 38 were missed at first.
LATER_REQUESTS = [
    "I'd rather this didn't leave my laptop. Polish the abstract below.",
    "Only run this on my own hardware please.",
    "do this one without the cloud: list the planets",
    "No external APIs for this request. Summarise the plot of Hamlet.",
    "Please make sure that this stays on my computer.",
    "Treat this as strictly local.",
    "Don't let this out of the house: what does 'tort' mean?",
    "Bitte lass das auf meinem Rechner: korrigiere den Satz.",
    "Keine Cloud bitte. Was ist ein Integral?",
    "Das soll offline beantwortet werden.",
    "Gib das nicht an OpenAI weiter.",
    "Traite cette demande en local uniquement.",
    "N'envoie pas ce texte sur internet.",
    "Pas de cloud pour cette question.",
    "Procesa esto solo en mi equipo.",
    "No lo mandes a la nube, por favor.",
    "Sin la nube: resume el párrafo.",
    "Elabora tutto sul mio computer.",
    "Non mandare questo nel cloud.",
    "Processa isto apenas no meu computador.",
    "Não mandes isto para a nuvem.",
    "Verwerk dit alleen op mijn computer.",
    "Niets hiervan mag naar buiten.",
    "Przetwarzaj to tylko na moim komputerze.",
    "Nie udostępniaj tego nikomu.",
    "Это не должно покидать мой компьютер.",
    "Ответь офлайн, без облака.",
    "这段话只能在本机处理。",
    "别把这个传到网上。",
    "このテキストは社外に出さないでください。",
    "オフラインで答えてください。これは内緒です。",
    "이 글은 외부로 전송하지 마세요.",
    "عالج هذا النص على جهازي فقط.",
    "इसे मेरे कंप्यूटर पर ही रखो।",
    "Bunu buluta gönderme.",
    "Det här får inte lämna min dator.",
    "Neposílej to nikam ven.",
    "Please process the following entirely on this machine.",
    "My notes below must never reach a remote server.",
    "I do not want any of this on the internet.",
    "Handle the whole thing offline, thanks.",
    "none of what I paste here should end up with OpenAI",
    "Strictly in-house: draft a memo on parking.",
    "Answer locally.",
    "Nur hier auf dem Rechner beantworten, nicht rausschicken.",
    "Meine Notizen sollen nie ins Internet.",
    "Mach das bitte komplett lokal.",
    "Ne transmets rien de tout cela à un fournisseur externe.",
    "Tout doit rester sur ma machine.",
    "Que nada de esto salga a internet.",
    "Trátalo en privado, solo en este equipo.",
    "Questo deve restare sul mio computer.",
    "Non condividere nulla con terzi.",
    "Isto não pode sair do meu computador.",
    "Não partilhes isto com ninguém.",
    "Laat dit op mijn computer.",
    "Deel dit met niemand.",
    "To nie może opuścić mojego komputera.",
    "Odpowiedz lokalnie, bez chmury.",
    "Обработай всё на моём компьютере.",
    "Ничего не отправляй в интернет.",
    "请在本地离线处理以下内容。",
    "以下内容严禁发送到外部服务器。",
    "以下は端末内で処理してください。",
    "第三者に共有しないでください。",
    "아래 내용은 내 컴퓨터에서만 처리해 줘.",
    "제3자에게 공유하지 마세요.",
    "لا تشارك هذا مع أي طرف ثالث.",
    "يجب أن يبقى هذا محليًا.",
    "इसे किसी तीसरे पक्ष के साथ साझा मत करो।",
    "इसे बाहर मत भेजना।",
    "Bunu dışarıya gönderme.",
    "Sadece yerelde işle.",
    "Behandla det här endast lokalt.",
    "Zpracuj to pouze na mém počítači.",
]
HARMLESS = [
    "Typically you'll use the server while developing locally, and build to publish.",
    "Accompany it with a written offer to give any third party, for no charge, a copy.",
    "Uma lista das distribuições de terceiros é mantida no wiki.",
    "def merge(self):\n    For internal use only.\n    self.parts = []",
    (
        "Recipient shall hold the Confidential Information in strict confidence and "
        "shall not disclose it to any third party. What does this clause of a standard NDA tem"
        "plate mean?"
    ),
    (
        "The Licensee acknowledges that the Software contains confidential and "
        'proprietary information of the Licensor. THE SOFTWARE IS PROVIDED "AS IS".'
    ),
    (
        "This email and any attachments are confidential and intended solely for the "
        "addressee. <- is this kind of footer legally binding?"
    ),
    "Explain what a confidentiality agreement is.",
    "How do I keep a local branch in sync with upstream without pushing it to the remote?",
    "const config = { keepLocal: true, cloud: false } // do not upload source maps",
    "What is the difference between on-prem and cloud deployments?",
    (
        "How can I store files locally in an Android app instead of uploading them to a "
        "cloud bucket?"
    ),
    "Write a function keep_local_copy(path) that copies a file before the upload.",
    "Was bedeutet 'streng vertraulich' in Verträgen?",
    (
        "Template: [COMPANY NAME] CONFIDENTIAL. Prepared for [CLIENT]. Fill in the "
        "headings of this template."
    ),
    "Translate to German: 'The documents are confidential.'",
    (
        "Classify the document levels: public, internal, confidential, secret. Give an "
        "example for each."
    ),
    "Which models can run locally on a laptop with 8 GB?",
    "Comment garder un cache local en Python ?",
    "¿Qué es la nube y qué es un servidor local?",
    "本地缓存和云端缓存有什么区别？",
    "ローカルファイルをクラウドに送る方法を教えてください。",
    "Как отправить файл в облако из Python?",
    (
        'Contribution: "You may not publish confidential information of others without '
        'explicit permission" (Contributor Covenant). Summarise.'
    ),
    (
        "ISO 27001 control: confidential data must not leave the premises. Explain what "
        "this control requires."
    ),
    (
        "GPL: You may not impose any further restrictions. Do not distribute without "
        "source. Is that right?"
    ),
    "Keep the local variable names short and do not touch the external API.",
    "This module must not import anything from outside the package.",
    "Explain this: why should a password never be shared with anyone?",
    "Do not use any third party libraries in this solution.",
    "Write a blog post about moving from the cloud back to on-prem servers.",
    "Use a local clone of this repository to run the tests locally.",
    "Our backup runs locally first and is then copied to the cloud.",
    "Keep this function private and expose the other one.",
    "The sensor works offline. Write marketing text for it.",
    "Schreibe eine Funktion, die lokale Dateien nicht überschreibt.",
    "No puedo subir archivos a la nube, me da error 403.",
    "I can't upload this to the cloud: error 403 from S3.",
    "Je ne peux pas me connecter à internet avec ce routeur.",
    "Write a story about a secret that must never leave the village.",
    "Don't forget to store this in the local cache.",
    "不要使用外部库，用Python写一个函数。",
    "外部APIを使わないでください。Pythonで書いて。",
    "Summarise the privacy policy: we never share your data with third parties.",
    "Kann ich das Modell lokal ausführen?",
    "Make sure that nothing in this script touches the internet.",
    "Refactor this so the handler runs locally in tests.",
    "Compare local and cloud LLM inference costs.",
    "Write an email: we will not be going to the third-party venue this year.",
    "My router does not connect to the internet anymore.",
    "Do not include anything about Google in this summary.",
    "Tell me about secret societies in the 18th century.",
    "Translate 'keep it simple' into Latin.",
    "This recipe must not leave out the salt.",
    "The dog should never go outside alone. Write a sign.",
    "Use a local variable here instead of a global.",
    "Erkläre den Unterschied zwischen lokaler und globaler Suche.",
    "Das Kind soll nicht allein nach draußen gehen. Schreib eine Geschichte.",
    "Ne mets pas de mots anglais dans le texte.",
    "No uses palabras difíciles en este texto.",
    "これを日本語に翻訳してください。",
    "这个词的意思是什么？",
    "Не используй иностранные слова в этом тексте.",
    "Convert this on-prem Kubernetes manifest to Helm.",
    "Explain to nobody in particular why this sky is blue.",
    "Give me a private tutor style lesson on this topic.",
]
CONFIDENTIAL = [
    "Strictly confidential\n\nThe board meets on Tuesday.",
    "INTERNAL USE ONLY\nRelease plan",
    "Streng vertraulich!\nSehr geehrte Damen und Herren",
    "This memo is confidential, please shorten it.",
    "Summarise our confidential offer to the supplier.",
    "Das ist vertraulich: wir kaufen die Firma.",
    "これは社外秘です。要約してください。",
]


def kinds(text: str) -> set[FindingKind]:
    return {finding.kind for finding in SCANNER.scan([TextPart("prompt", text)])}


@pytest.mark.parametrize("text", REQUESTS + LATER_REQUESTS)
def test_request_to_keep_it_here_is_found(text: str) -> None:
    assert FindingKind.MARKED_PRIVATE in kinds(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_mentions_such_words_is_no_mark(text: str) -> None:
    assert kinds(text) == set()


@pytest.mark.parametrize("text", CONFIDENTIAL)
def test_mark_is_a_line_of_its_own_or_about_something_of_the_author(text: str) -> None:
    assert kinds(text) == {FindingKind.CONFIDENTIAL}


def test_request_stands_at_the_beginning_or_the_end_of_a_long_text() -> None:
    filler = "The sea is blue and the hills are green. " * 100
    request = "Keep this local, please."
    assert (
        kinds(f"{request} {filler}") == kinds(f"{filler} {request}") == {FindingKind.MARKED_PRIVATE}
    )
    assert kinds(f"{filler} {request} {filler}") == set()
