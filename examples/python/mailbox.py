"""A mailbox per user: every search sees one mailbox, by words, by meaning, or by both.

The mails are put together from sentences; the vector of a mail is the sum of fixed vectors of its
words, which stands for an embedding model.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta

import numpy as np

import vstream

USERS, DIMENSION = 300, 128
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SENDERS = ["bank", "shop", "anna", "boss", "club", "city"]
MAILS = {
    "Your invoice": "Please find the invoice of your last order. It is due within two weeks.",
    "Invoice overdue": "We did not receive your payment. Please pay the invoice at once.",
    "Lunch on Friday?": "Shall we meet for lunch on Friday? The new place by the river is good.",
    "Minutes of the meeting": "Attached are the minutes. The release moves to the end of May.",
    "Train tickets": "Your tickets to Vienna are booked. The train leaves platform four at nine.",
    "Choir practice": "Practice begins at seven on Tuesday. Please bring the new scores.",
    "Password changed": "The password of your account was changed. Call us if it was not you.",
    "Parcel on its way": "Your parcel left our warehouse and arrives on Wednesday before noon.",
    "Photos of the summer": "Here are the photos of the lake, the boat and of your daughter.",
    "Water is switched off": "The city repairs the water main in your street on Monday morning.",
    "Review of your draft": "I read the draft. The second chapter needs figures, the rest is fine.",
    "Holiday request": "Your holiday in August is approved. Enjoy the mountains.",
}


def embed(text: str) -> np.ndarray:
    """Return the sum of the vectors of the words: texts with the same words are near each other."""
    total = np.zeros(DIMENSION, np.float32)
    for word in re.findall(r"\w+", text.lower()):
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        total += np.random.default_rng(seed).standard_normal(DIMENSION, np.float32)
    return total


def fill(mail: vstream.GroupCollection, rng: np.random.Generator) -> int:
    """Give each user some 20 to 200 mails; return their number."""
    subjects = list(MAILS)
    vectors = np.stack([embed(f"{subject} {MAILS[subject]}") for subject in subjects])
    total = 0
    for user in range(USERS):
        count = int(rng.integers(20, 200))
        kinds = rng.integers(len(subjects), size=count)
        noise = rng.standard_normal((count, DIMENSION), np.float32)
        total += mail.group(f"user-{user}").upsert(
            [f"mail-{at}" for at in range(count)],
            vectors[kinds] + noise,
            attributes={
                "subject": [subjects[kind] for kind in kinds],
                "body": [MAILS[subjects[kind]] for kind in kinds],
                "sender": [SENDERS[at] for at in rng.integers(len(SENDERS), size=count)],
                "sent": [NOW - timedelta(hours=int(h)) for h in rng.integers(4000, size=count)],
                "read": rng.integers(2, size=count) == 1,
            },
            payload=[{"user": user, "number": at} for at in range(count)],
        )
    return total


def show(title: str, found: vstream.Answer) -> None:
    """Print an answer, a row a line."""
    print(title)
    for row in found.rows():
        score = f"  score {row['score']:.3f}" if "score" in row else ""
        print(f"  {row['id']:>9}  {row['subject']:<24} {row['sender']:<5}{score}")


def main() -> None:
    """Fill the mailboxes, then ask one of them."""
    rng = np.random.default_rng(3)
    mail = vstream.GroupCollection.create(
        DIMENSION,
        metric="cosine",
        element="bf16",
        id="string",
        attributes={
            "subject": "text",
            "body": "text",
            "sender": "keyword",
            "sent": "timestamp",
            "read": "bool",
        },
    )
    print(f"{fill(mail, rng):,} mails of {USERS} users")
    mine = mail.group("user-7")
    carry = ["subject", "sender", "payload"]

    found = mine.search(embed("money that I owe: pay the invoice"), k=3, with_=carry)
    show("Nearest in meaning:", found)
    assert all(content["user"] == 7 for content in found.json())

    found = mine.search(text="invoice -overdue", where={"read": False}, k=3, with_=carry)
    show("Unread, with 'invoice' and without 'overdue':", found)
    assert set(found.attributes["subject"]) <= {"Your invoice"}

    found = mine.search(
        embed("a trip by train"),
        text='tickets "leaves platform" holi*',
        rank="closeness + 0.2 * bm25(subject) + $fresh * freshness(sent)",
        rank_parameters={"fresh": 0.3},
        now=NOW,
        k=4,
        with_=carry,
        diversify=("sender", 1),
    )
    show("By meaning, words and freshness, one of each sender:", found)
    assert len(set(found.attributes["sender"])) == len(found.ids)

    removed = mine.delete(where={"sender": "shop", "read": True})
    mine.update("mail-1", attributes={"read": True})
    print(f"{removed} mails of the shop are gone, {len(mine)} are left")
    mail.group("user-8").drop()
    print(f"{sum(1 for _ in mail.groups())} mailboxes after one was closed")


if __name__ == "__main__":
    main()
