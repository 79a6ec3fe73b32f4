"""The source documents, regenerated from the published figures, and where they disagree with them."""
