use proptest::prelude::*;

use super::*;

fn at() -> Url {
    Url::parse("https://site.example/a/page?x=1").unwrap()
}

fn text(html: &str) -> String {
    read(html, Some(&at())).text
}

#[test]
fn a_page_reads_as_its_reader_would_read_it() {
    let page = "<!DOCTYPE html><html lang=en><head><title> Tea &amp;\n Cake </title>\
        <style>p { color: red }</style><script>alert('<p>no</p>')</script></head>\
        <body><h1>Tea</h1><p>One   cup of\n<b>green</b> tea&nbsp;now.</p><p>Two<br>lines\
        <ul><li>first<li>second <a href=/more#top>more</a></ul>\
        <table><tr><th>a<th>b<tr><td>1<td>2</table><pre>x\n  y</pre>\
        <!-- comment --><img src=x alt='a cup'><textarea>typed</textarea></body></html>";
    let read = read(page, Some(&at()));
    assert_eq!(read.title, "Tea & Cake");
    assert_eq!(
        read.text,
        "# Tea\n\nOne cup of green tea now.\n\nTwo\nlines\n\n- first\n- second more [1]\n\na | b\n1 | 2\n\n\
         x\n  y\n\n[image: a cup]typed"
    );
    assert_eq!(read.links, ["https://site.example/more"]);
    assert!(!read.unfinished);
}

#[test]
fn what_is_not_shown_is_not_read() {
    for page in [
        "a<script>b</script>c",
        "a<script><!-- <script>b</script> --></script>c",
        "a<style>b</style>c",
        "a<template><p>b</p></template>c",
        "a<span hidden>b<span>b</span>b</span>c",
        "a<div style='x:y; Display : NONE'>b</div>c",
        "a<p aria-hidden=true>b</p>c",
        "a<svg><title>b</title><text>b</text></svg>c",
        "a<svg/>c",
        "a<iframe><p>b</p></iframe>c",
        "a<object><object>b</object>b</object>c",
        "a<!-- b -->c",
        "a<img hidden alt=b>c",
    ] {
        let words: String = text(page).split_whitespace().collect();
        assert_eq!(words, "ac", "{page}");
    }
    assert_eq!(text("a<p hidden=until-found>b"), "a\n\nb");
    // What never ends hides the rest, as it does in a browser.
    assert_eq!(text("a<template>b<p>c"), "a");
}

#[test]
fn links_are_whole_addresses_and_lead_to_the_web_alone() {
    let page = "<a href='b'>b</a> <a href='//other.example/c?d=e'>c</a> <a href='b'>again</a> \
        <a href='javascript:alert(1)'>js</a> <a href='data:text/html,x'>data</a> <a href='#here'>here</a> \
        <a href='mailto:a@b.example'>mail</a> <a href='http://['>broken</a> <a name=x>none</a>";
    let page = read(page, Some(&at()));
    assert_eq!(
        page.links,
        ["https://site.example/a/b", "https://other.example/c?d=e"]
    );
    assert_eq!(
        page.text,
        "b [1] c [2] again [1] js data here mail broken none"
    );
    let based = "<base href='https://else.example/x/'><a href=y>y</a>";
    assert_eq!(read(based, Some(&at())).links, ["https://else.example/x/y"]);
    let many: Vec<String> = (0..500).map(|n| format!("<a href={n}>l</a>")).collect();
    let many = many.concat();
    assert_eq!(read(&many, Some(&at())).links.len(), LINKS);
}

/// Each of these makes some reader of HTML take hours, or run out of stack or memory.
#[test]
fn hostile_markup_ends_soon() {
    let deep = |tag: &str, n: usize| tag.repeat(n);
    let attributes = |n: usize| {
        let many: Vec<String> = (0..n).map(|n| format!(" a{n}")).collect();
        format!("<p{}>", many.concat())
    };
    for page in [
        deep("<div>", 100_000),
        deep("<table><tr><td>", 30_000),
        deep("<b><i><a href=x>", 30_000),
        deep("<svg><p>", 60_000),
        deep("<", 300_000),
        deep("&", 300_000),
        deep("<!--", 100_000),
        format!("<title>{}", deep("x ", 200_000)),
    ] {
        // It may take as long as it wants: a reader that is not linear does not end within the test's time.
        let read = read_until(&page, Some(&at()), || false);
        assert!(
            read.text.len() <= page.len() * 4 && read.title.len() <= TITLE && !read.unfinished,
            "{}",
            &page[..10]
        );
    }
    // The tokenizer looks at all attributes before each new one: what takes too long is cut.
    let mut pieces = 0;
    let page = format!("<p>before{}", attributes(100_000));
    let read = read_until(&page, Some(&at()), || {
        pieces += 1;
        pieces > 10
    });
    assert!(read.unfinished);
    assert_eq!(read.text, "before");
}

proptest! {
    #[test]
    fn no_page_breaks_the_reader(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("<a href=".to_owned()), Just(">".to_owned()), Just("</a>".to_owned()),
                Just("<script>".to_owned()), Just("</script>".to_owned()), Just("<svg ".to_owned()),
                Just("<title>".to_owned()), Just("<td>".to_owned()), Just("<pre>".to_owned()),
                Just("<!--".to_owned()), Just("&#x110000;".to_owned()), Just("<p hidden>".to_owned()),
                "\\PC{0,8}",
            ],
            0..40,
        )
    ) {
        let page = pieces.concat();
        let read = read(&page, Some(&at()));
        prop_assert!(read.links.iter().all(|link| link.starts_with("http")));
    }
}
