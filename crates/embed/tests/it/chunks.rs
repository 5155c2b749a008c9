use std::collections::HashSet;

use proptest::prelude::*;
use vstream_embed::{Chunk, ChunkHash, ChunkSettings, Chunker, EmbedErrorKind};

fn chunker(size: usize, overlap: usize) -> Chunker {
    Chunker::new(ChunkSettings { size, overlap }).unwrap()
}

fn text_of<'a>(text: &'a str, chunk: &Chunk) -> &'a str {
    &text[chunk.bytes.clone()]
}

/// Paragraphs of numbered sentences, of 40 characters or so each.
fn speech(paragraphs: usize) -> String {
    let sentence = |p: usize, s: usize| format!("Sentence {s} of paragraph {p} speaks of trade. ");
    let paragraph = |p: usize| (0..5).map(|s| sentence(p, s)).collect::<String>();
    (0..paragraphs).map(paragraph).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn a_short_text_is_one_chunk_and_a_blank_one_is_none() {
    let chunks = chunker(100, 20).chunks(" \n Peace, at last. \n").unwrap();
    assert_eq!(chunks.len(), 1);
    assert_eq!((chunks[0].bytes.clone(), chunks[0].chars.clone()), (3..18, 3..18));
    assert_eq!(chunks[0].hash, ChunkHash::new("Peace, at last."));
    for blank in ["", " \n\t ", "\u{2003}\u{2028}"] {
        assert_eq!(chunker(100, 20).chunks(blank).unwrap(), [], "{blank:?}");
    }
}

#[test]
fn sentences_stay_whole_and_overlap_by_whole_sentences() {
    let text = speech(4);
    let chunks = chunker(200, 60).chunks(&text).unwrap();
    assert!(chunks.len() > 4);
    for chunk in &chunks {
        let part = text_of(&text, chunk);
        assert!(part.starts_with("Sentence") && part.ends_with("trade."), "{part}");
    }
    let repeated = chunks.windows(2).filter(|w| w[1].bytes.start < w[0].bytes.end).count();
    assert!(repeated > 0, "no chunk repeats the end of the one before");
}

#[test]
fn a_long_sentence_is_cut_into_parts_of_about_one_length() {
    let text = "word ".repeat(41);
    let chunks = chunker(100, 0).chunks(&text).unwrap();
    let lengths: Vec<usize> = chunks.iter().map(|chunk| chunk.chars.len()).collect();
    assert_eq!(lengths, [69, 69, 64]);
}

#[test]
fn a_change_in_the_middle_leaves_the_hashes_of_the_rest() {
    let text = speech(60);
    let changed =
        text.replace("Sentence 2 of paragraph 20", "An entirely new sentence, longer, 20");
    assert_ne!(text, changed);
    let hashes = |text: &str| -> HashSet<ChunkHash> {
        chunker(300, 60).chunks(text).unwrap().into_iter().map(|chunk| chunk.hash).collect()
    };
    let (before, after) = (hashes(&text), hashes(&changed));
    let new = after.difference(&before).count();
    assert!((1..=4).contains(&new), "{new} of {} chunks are new", after.len());
    let front = format!("One more sentence in front of all others. {text}");
    let new = hashes(&front).difference(&before).count();
    assert!((1..=4).contains(&new), "{new} chunks are new behind a longer beginning");
}

/// Found by the test of any text below: a blank piece behind what a chunk repeats.
#[test]
fn no_chunk_only_repeats_the_one_before() {
    let text = " a?\u{1ee29}\u{11c38}\n\u{a4d0}aA AAAa\u{a1} \u{ae}\u{3a3}0 \u{38c} \n\n0a\u{a85}a\u{10eab}a \
                A0\"\u{10d0}\u{1033b}\u{ae}AA\u{10d9}\u{3a3}\u{3099}0\u{2b740}\u{10b58}A\u{ba3}a\"\u{fe76}  0 \
                \u{108a2}  A a\u{840}\u{fffc}AA \u{1700}\u{fffc}\u{1f300}A\u{1f300}\u{ae}\u{1ff6}\"\u{ae}";
    for size in 16..60 {
        let mut covered = 0;
        for chunk in chunker(size, size / 2).chunks(text).unwrap() {
            assert!(chunk.bytes.end > covered, "{size} characters");
            covered = chunk.bytes.end;
        }
    }
}

#[test]
fn settings_and_documents_have_limits() {
    let refused =
        |size, overlap| Chunker::new(ChunkSettings { size, overlap }).map(drop).unwrap_err().kind();
    for (size, overlap) in [(0, 0), (15, 0), (8_001, 0), (100, 51)] {
        assert_eq!(refused(size, overlap), EmbedErrorKind::Invalid, "{size} {overlap}");
    }
    let long = "a".repeat((16 << 20) + 1);
    assert_eq!(chunker(100, 0).chunks(&long).unwrap_err().kind(), EmbedErrorKind::Invalid);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn chunks_of_any_text_cover_it_in_order(
        text in "(\\PC|[ a-c.!?\n\u{301}\u{200d}👩日]){0,300}",
        size in 16_usize..80,
        share in 0_usize..=2,
    ) {
        let chunks = chunker(size, size * share / 4).chunks(&text).unwrap();
        let mut covered = 0;
        for (at, chunk) in chunks.iter().enumerate() {
            let part = text_of(&text, chunk);
            let chars = part.chars().count();
            prop_assert!(chars > 0 && chars <= size);
            prop_assert_eq!(part, part.trim());
            let by_chars: String = text.chars().skip(chunk.chars.start).take(chars).collect();
            prop_assert_eq!(&by_chars, part);
            prop_assert_eq!(chunk.chars.len(), chars);
            prop_assert_eq!(chunk.hash, ChunkHash::new(part));
            if chunk.bytes.start > covered {
                prop_assert_eq!(text[covered..chunk.bytes.start].trim(), "");
            }
            prop_assert!(chunk.bytes.end > covered, "chunk {} repeats only", at);
            covered = chunk.bytes.end;
        }
        prop_assert_eq!(text[covered..].trim(), "");
    }
}
