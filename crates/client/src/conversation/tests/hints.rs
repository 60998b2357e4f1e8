//! Downloads of hints: complete, cut short, changed meanwhile, patched.

use super::*;

/// Returns the configuration of a version whose hint is `hint`.
fn with_hint(version: Version, hint: &[u8]) -> Reply {
    let config = config(version);
    let base = spirea_wire::PartConfig { hint_blake3: blake3::hash(hint).into(), ..config.base };
    (200, spirea_wire::Config { base, ..config }.encode())
}

/// Returns the hint of [`config`].
fn zeros() -> Vec<u8> {
    vec![0; params().sizes.hint_bytes as usize]
}

/// Returns the first byte that a request for a hint asks for.
fn start(request: &Request) -> usize {
    header(request, "range")
        .map_or(0, |range| range.strip_prefix("bytes=").unwrap().split('-').next().unwrap().parse().unwrap())
}

/// Returns at most `most` bytes of the requested range of a hint.
fn served(hint: &[u8], request: &Request, most: usize) -> Vec<Received> {
    let end = header(request, "range").and_then(|range| range.split('-').nth(1)?.parse::<usize>().ok());
    let range = start(request)..end.map_or(hint.len(), |last| last + 1);
    let status = if header(request, "range").is_some() { 206 } else { 200 };
    let body = &hint[range];
    replied((status, body[..body.len().min(most)].to_vec()))
}

/// Connects to a server whose connections each deliver at most `most` bytes of a hint.
fn cut_short(most: impl Fn(usize) -> usize) -> (Stage, Result<(), ClientError>) {
    let (mut stage, hint) = (Stage::new(), zeros());
    let conversation = connect(&stage, Policy::default());
    let result = stage.play(conversation, &mut |_, request| match path(request) {
        "config" => replied(with_hint(OLD, &hint)),
        _ => served(&hint, request, most(hint.len() - start(request))),
    });
    (stage, result.map(drop))
}

#[test]
fn a_hint_that_is_cut_short_is_fetched_from_where_it_ended() {
    let (stage, result) = cut_short(|_| zeros().len() / 40);
    result.unwrap();
    let starts: Vec<usize> = stage.sent[1..].iter().map(|(_, request)| start(request)).collect();
    assert!(starts.len() >= 40 && starts.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(stage.read - with_hint(OLD, &zeros()).1.len(), zeros().len());
}

#[test]
fn a_server_that_cuts_a_hint_short_for_ever_is_not_asked_for_ever() {
    let attempts = Policy::default().attempts as usize;
    let (stage, result) = cut_short(|_| 0);
    assert!(matches!(result, Err(ClientError::Broken(_))));
    assert_eq!(stage.bodies("hint").len(), attempts);
    // A connection that delivers only a little ends the same way, with a pause before each retry.
    let (stage, result) = cut_short(|_| 1);
    assert!(matches!(result, Err(ClientError::Broken(_))));
    assert_eq!(stage.bodies("hint").len(), attempts);
    assert_eq!(stage.pauses.len(), attempts - 1);
    // Here each connection delivers so much that the count of failures is reset in time. The number
    // of requests is bounded all the same.
    let share = zeros().len() / 256 / (attempts - 1) + 1;
    let (stage, result) = cut_short(|_| share);
    result.unwrap();
    assert!(stage.bodies("hint").len() <= 256 * attempts);
    assert_eq!(stage.pauses.len(), stage.bodies("hint").len() - 1);
}

#[test]
fn a_server_that_takes_back_what_it_gave_is_not_asked_for_ever() {
    let (mut stage, hint) = (Stage::new(), zeros());
    let conversation = connect(&stage, Policy::default());
    let result = stage.play(conversation, &mut |_, request| match path(request) {
        "config" => replied(with_hint(OLD, &hint)),
        _ if start(request) > 0 => replied(refusal(416, Code::WrongRange)),
        _ => served(&hint, request, hint.len() / 2),
    });
    assert!(matches!(result.map(drop), Err(ClientError::Broken(_))));
    assert!(stage.bodies("hint").len() <= 2 * Policy::default().attempts as usize);
}

#[test]
fn a_database_that_changes_whenever_it_is_fetched_is_let_go() {
    let (mut stage, hint) = (Stage::new(), zeros());
    let conversation = connect(&stage, Policy::default());
    let result = stage.play(conversation, &mut |_, request| match path(request) {
        "config" => replied(with_hint(OLD, &hint)),
        _ => replied(refusal(410, Code::UnknownHint)),
    });
    assert!(matches!(result.map(drop), Err(ClientError::Changing)));
    let expected = [(0, "config"), (0, "hint")].repeat(3);
    assert_eq!(stage.paths(), expected);
    assert_eq!(stage.pauses.len(), 2);
}

#[test]
fn a_hint_that_is_not_the_one_named_is_fetched_twice() {
    let (mut stage, hint) = (Stage::new(), zeros());
    let conversation = connect(&stage, Policy::default());
    let result = stage.play(conversation, &mut |_, request| match path(request) {
        "config" => replied(with_hint(OLD, b"another")),
        _ => served(&hint, request, usize::MAX),
    });
    assert!(matches!(result.map(drop), Err(ClientError::HintCorrupted)));
    assert_eq!(stage.paths(), [(0, "config"), (0, "hint"), (0, "hint")]);
}

#[test]
fn of_a_hint_like_the_former_one_only_the_rows_that_differ_are_fetched() {
    let (mut stage, old) = (Stage::new(), zeros());
    let rows = params().hint_rows().unwrap();
    let mut new = old.clone();
    let changed = rows.row_bytes() + 7;
    new[changed] = 1;
    let cache = MemoryCache::default();
    for (version, hint) in [(OLD, &old), (NEW, &new)] {
        let boxed = Box::new(cache.clone());
        let connected = Client::connect(&alone(), "test", boxed, Policy::default(), stage.clock()).unwrap();
        let client = stage.play(connected, &mut |_, request| match path(request) {
            "config" => replied(with_hint(version, hint)),
            "rows" => replied((200, rows.list(hint))),
            _ => served(hint, request, usize::MAX),
        });
        assert_eq!(client.unwrap().description().version(), &version);
    }
    assert_eq!(stage.paths(), ["config", "hint", "config", "rows", "hint"].map(|path| (0, path)));
    let range = format!("bytes={}-{}", rows.row_bytes(), 2 * rows.row_bytes() - 1);
    assert_eq!(header(&stage.sent[4].1, "range"), Some(&range[..]));
    // The new hint is kept; the former one is removed.
    let part = |version, hint: &[u8]| {
        Description::parse("test", with_hint(version, hint).1.into()).unwrap().base().clone()
    };
    let mut cache = cache;
    assert!(cache.load(&part(NEW, &new)).unwrap().is_some());
    assert!(cache.load(&part(OLD, &old)).unwrap().is_none());
}
