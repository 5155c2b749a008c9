"""LangChain's own suite, unmodified."""

from collections.abc import Iterator

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from langchain_vstream import VStream


class TestInMemory(VectorStoreIntegrationTests):
    @pytest.fixture()
    def vectorstore(self) -> Iterator[VectorStore]:
        store = VStream(self.get_embeddings())
        yield store
        store.collection.close()


class TestInDirectory(VectorStoreIntegrationTests):
    @pytest.fixture()
    def vectorstore(self, tmp_path) -> Iterator[VectorStore]:
        store = VStream(self.get_embeddings(), path=tmp_path / "documents")
        yield store
        store.collection.close()
