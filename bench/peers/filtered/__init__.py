"""Search with filters: attributes, the filters that queries carry, their truth, and the figures."""
