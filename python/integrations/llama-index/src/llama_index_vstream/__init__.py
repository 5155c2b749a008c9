"""LlamaIndex vector store by VStream."""

from llama_index_vstream.store import VStreamVectorStore

__all__ = ["VStreamVectorStore"]
