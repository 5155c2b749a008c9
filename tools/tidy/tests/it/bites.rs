//! Each rule bites: on a small bad sample it says so, and on its good twin it is silent.

use std::collections::BTreeSet;

use vstream_tidy::{
    bare_matches, blobs, file_lengths, function_lengths, imports, links, module_cycles, names,
    open_ends, package_cycles, tiers, unsafe_code, File, Package,
};

fn one(path: &str, text: &str) -> Vec<File> {
    vec![File { path: path.to_owned(), text: text.to_owned() }]
}

fn package(name: &str, uses: &[&str]) -> Package {
    let roots = vec![format!("crates/{name}/src/lib.rs")];
    let uses = uses.iter().map(|name| (*name).to_owned()).collect();
    Package { name: name.to_owned(), roots, uses }
}

/// What the rule says of these crates; `changed` is changed in the manifest and in the table.
fn tier_breaches(changed: &str, uses: &[&str]) -> String {
    let mut table = "| tier | crate | x | uses |\n|---|---|---|---|\n".to_owned();
    let mut packages = Vec::new();
    for (tier, name, used) in [
        ("T0", "vector", &[][..]),
        ("T1", "vstream-route", &["vector"]),
        ("T1", "store", &["vector"]),
        ("T4", "vstream-engine", &["vector"]),
        ("tests", "sim", &["vstream-engine", "vstream-route"]),
    ] {
        let used = if name == changed { uses } else { used };
        let cell: Vec<String> = used.iter().map(|name| format!("`{name}`")).collect();
        table += &format!("| {tier} | `{name}` | x | {} |\n", cell.join(", "));
        packages.push(package(name, used));
    }
    if changed == "the table" {
        packages.push(package("new", &[]));
        table = table.replace("| T1 | `store` | x | `vector` |", "| T1 | `store` | x | |");
        table += "| T2 | `gone` | x | |\n";
    }
    tiers(&table, &packages).join("\n")
}

#[test]
fn tiers_bite() {
    assert_eq!(tier_breaches("nothing", &[]), "");
    assert!(tier_breaches("vector", &["store"]).contains("must not use store"), "upwards");
    assert!(tier_breaches("store", &["vstream-route"]).contains("must not use"), "a sibling");
    assert!(tier_breaches("vstream-engine", &["sim"]).contains("must not use sim"), "tests only");
    assert!(tier_breaches("vstream-engine", &["vstream-route"]).contains("must not use"));
    let drifted = tier_breaches("the table", &[]);
    assert!(drifted.contains("no row for new") && drifted.contains("gone, which is no crate"));
    assert!(drifted.contains("store: the tier table says"), "{drifted}");
}

#[test]
fn unsafe_code_bites() {
    let count = |path, text| {
        let mut files = one("crates/route/src/lib.rs", "#![forbid(unsafe_code)]\n");
        files.extend(one("crates/vector/src/lib.rs", "#![deny(unsafe_code)]\n"));
        files.extend(one(path, text));
        unsafe_code(&files, &[package("route", &[]), package("vector", &[])]).len()
    };
    assert_eq!(count("crates/route/src/a.rs", "// unsafe\nfn f() {}\n"), 0);
    assert_eq!(count("crates/route/src/a.rs", "fn f() { unsafe { g() } } // why\n"), 1);
    assert_eq!(count("crates/vector/src/kernels/avx2.rs", "unsafe fn f() {}"), 0);
    assert_eq!(unsafe_code(&one("crates/a/src/lib.rs", ""), &[package("a", &[])]).len(), 1);
}

#[test]
fn lengths_bite() {
    let source = ["a/src/a.rs", "a/tests/it/a.rs"];
    for (path, lines, breaches) in
        [(0, 500, (0, 0)), (0, 501, (0, 1)), (0, 601, (1, 0)), (1, 601, (0, 0))]
    {
        let (long, noted) = file_lengths(&one(source[path], &"x();\n".repeat(lines)));
        assert_eq!((long.len(), noted.len()), breaches, "{lines} lines");
    }
    let rust = |lines| {
        let body = "    x();\n".repeat(lines);
        let text = format!("fn before();\n\npub(crate) fn f(\n) {{\n{body}}}\n");
        function_lengths(&one("crates/a/src/a.rs", &text)).len()
    };
    assert_eq!((rust(67), rust(68)), (0, 1), "70 and 71 lines with the head and the brace");
    let java = |lines| {
        let body = "        x();\n".repeat(lines);
        let text =
            format!("class A {{\n    int a = f(\n        1);\n    void f() {{\n{body}    }}\n}}");
        function_lengths(&one("java/a/src/main/A.java", &text)).len()
    };
    assert_eq!((java(68), java(69)), (0, 1));
}

#[test]
fn names_bite() {
    for bad in ["a/util/b.rs", "a/StreamUtils.java", "b_helper.rs", "PoolImpl.java", "x_v2.rs"] {
        assert_eq!(names(&one(bad, "")).len(), 1, "{bad}");
    }
    assert!(names(&one("crates/implied/utility.rs", "")).is_empty());
}

#[test]
fn bare_matches_bite() {
    let count = |text| bare_matches(&one("crates/a/tests/it/a.rs", text)).len();
    assert_eq!(count("fn f() {\n    matches!(x, Some(_));\n}\n"), 1);
    assert_eq!(count("fn f() {\n    g();\n    matches!(\n        x, 1\n    );\n}\n"), 1);
    assert_eq!(count("let y =\n    matches!(x, 1);\nassert!(y);\nmatches!(x, 2)\n"), 0);
}

#[test]
fn links_bite() {
    let count = |text| links(&one("docs/a.md", text), &|path| path == "README.md").len();
    assert_eq!(count("[x](../README.md#name) [y](https://a.b/c) `crates/*` [z](#here)"), 0);
    assert_eq!((count("[x](gone.md)"), count("[x]()"), count("`crates/gone`")), (1, 1, 1));
    assert_eq!(count("```\n[x](gone.md)\n```\n"), 0, "code is no prose");
}

#[test]
fn imports_bite() {
    let count = |text| imports(&one("java/flink/src/main/java/io/A.java", text)).len();
    assert_eq!(count("import java.util.List;\nimport static org.apache.flink.X.y;\n * Kryo\n"), 0);
    assert_eq!(count("import com.google.common.base.Strings;\n"), 1);
    assert_eq!(count("        new ObjectInputStream(in);\n"), 1);
}

#[test]
fn module_cycles_bite() {
    let breaches = |samples: &[(&str, &str)]| {
        let file = |(path, text): &(&str, &str)| File {
            path: format!("crates/a/src/{path}"),
            text: (*text).to_owned(),
        };
        let root = Package {
            name: "a".to_owned(),
            roots: vec!["crates/a/src/lib.rs".to_owned()],
            uses: BTreeSet::new(),
        };
        module_cycles(&samples.iter().map(file).collect::<Vec<_>>(), &[root])
    };
    let tree = ("tree/mod.rs", "use crate::error::Error;\nuse super::pin;\n");
    let pin = ("tree/pin.rs", "// not crate::wal::Log\nuse crate::tree::View;\n");
    let wal = ("wal/mod.rs", "use crate::{error, tree::View};\n");
    let error = ("error.rs", "#[cfg(test)]\nmod tests {\n    use crate::wal::Log;\n}\n");
    let root = ("lib.rs", "mod tree;\npub use tree::View;\n");
    assert_eq!(breaches(&[tree, pin, wal, error, root]), [""; 0], "comments and tests are no use");
    let up = ("tree/write.rs", "fn f(log: &crate::wal::Log) {}\n");
    let found = breaches(&[tree, pin, up, wal, error]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("crates/a/src/: tree, wal use each other"), "{found:?}");
    assert!(found[0].contains("tree -> wal (crates/a/src/tree/write.rs)"), "{found:?}");
    let through = ("error.rs", "use crate::wal::Log;\n");
    assert_eq!(breaches(&[wal, through]).len(), 1, "a folder and a file");
    let files = [("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")];
    assert_eq!(breaches(&files), [""; 0], "files without a folder are one room");
}

#[test]
fn package_cycles_bite() {
    let breaches = |samples: &[(&str, &str)]| {
        let file = |(path, text): &(&str, &str)| {
            let path = format!("java/flink/src/main/java/io/vstream/flink/{path}");
            File { path, text: (*text).to_owned() }
        };
        package_cycles(&samples.iter().map(file).collect::<Vec<_>>())
    };
    let place =
        ("place/A.java", "package io.vstream.flink.place;\nimport io.vstream.flink.route.B;");
    let route = ("route/B.java", " * {@link io.vstream.flink.place.A}\nimport java.util.List;\n");
    let door = ("Door.java", "import io.vstream.flink.place.A;\nimport io.vstream.flink.Metric;\n");
    assert_eq!(breaches(&[place, route, door]), [""; 0], "a comment is no use");
    let pair = ("route/C.java", "import static io.vstream.flink.place.A.f;");
    let found = breaches(&[place, route, pair, door]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("place, route use each other"), "{found:?}");
    assert!(found[0].contains("route -> place (route/C.java)"), "{found:?}");
    let up = ("route/D.java", "class D { io.vstream.flink.Door door; }");
    let found = breaches(&[place, up, door]);
    assert!(found.len() == 1 && found[0].contains("io.vstream.flink -> place"), "{found:?}");
    let two =
        [("c/A.java", "import io.vstream.flink.d.B;"), ("d/B.java", "io.vstream.flink.c.A a;")];
    assert_eq!(breaches(&[&[place, pair][..], &two].concat()).len(), 2, "two rounds, two cycles");
}

#[test]
fn open_ends_and_blobs_bite() {
    let count = |path| open_ends(&one(path, &format!("// TO{} later\n", "DO"))).len();
    assert_eq!((count("a/B.java"), count("a/b.md")), (1, 0), "a document may speak of it");
    let count = |bytes| blobs(&[("a.bin".to_owned(), bytes)]).len();
    assert_eq!((count(1 << 20), count((1 << 20) + 1)), (0, 1));
}
