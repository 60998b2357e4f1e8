// Address of a server with the table `domains`, and the values that keep it alive. The examples
// include this expression.
{
    use spirea::build::Builder;

    let folder = tempfile::tempdir().unwrap();
    let rows = [["example.org", "fine"], ["example.net", "bad"]];
    let table = Builder::from_rows(["domain", "verdict"], rows).key("domain");
    let snapshot = table.build(folder.path().join("domains")).unwrap();
    let server = spirea::server::Server::start([snapshot.folder()]).unwrap();
    (server.url().to_owned(), (server, folder))
}
