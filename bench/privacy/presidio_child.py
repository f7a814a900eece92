"""Microsoft Presidio behind a pipe: one text a line (JSON), one line of findings and time back.

Runs in an environment of its own (`presidio-analyzer`), with all recognisers for English. Without
the folder of a spaCy model these are the ones that need none: spaCy's blank pipeline gives words,
which are their own lemmas for context words.
"""

# pyright: basic, reportMissingImports=false
# Neither of these packages is in our environment.

import json
import sys
import time

import spacy
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine, SpacyNlpEngine


class BlankEngine(NlpEngine):
    """Words without a model."""

    def __init__(self):
        self._english = spacy.blank("en")

    def load(self):
        pass

    def is_loaded(self):
        return True

    def process_text(self, text, language):
        doc = self._english(text)
        places = [token.idx for token in doc]
        words = [token.text.lower() for token in doc]
        return NlpArtifacts([], doc, places, words, self, language)

    def process_batch(self, texts, language, **_):
        return ((text, self.process_text(text, language)) for text in texts)

    def is_stopword(self, word, language):
        return self._english.vocab[word].is_stop

    def is_punct(self, word, language):
        return self._english.vocab[word].is_punct

    def get_supported_entities(self):
        return []

    def get_supported_languages(self):
        return ["en"]


def main():
    """Answers until its input ends; arguments: the least score of a finding, the model's folder."""
    engine = BlankEngine()
    if len(sys.argv) > 2:
        engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": sys.argv[2]}])
        engine.load()
    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=engine)
    analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])
    least = float(sys.argv[1])
    for line in sys.stdin:
        text = json.loads(line)
        start = time.process_time()
        found = analyzer.analyze(text, language="en", score_threshold=least)
        spent = time.process_time() - start
        spans = [[one.start, one.end, one.entity_type] for one in found]
        print(json.dumps([spans, spent]), flush=True)


main()
