package e2e

import "strings"

func badLines(s *siege) []attack {
	rows := []attack{
		malformed("no method", s.request("/locks/key/lease HTTP/1.1")),
		malformed("empty method", s.request(" /locks/key/lease HTTP/1.1")),
		malformed("method with a NUL", s.request("DEL\x00ETE /locks/key/lease HTTP/1.1")),
		malformed("method with an accent", s.request("D\xc9LETE /locks/key/lease HTTP/1.1")),
		malformed("method in brackets", s.request("(DELETE) /locks/key/lease HTTP/1.1")),
		malformed("tabs for spaces", s.request("DELETE\t/locks/key/lease\tHTTP/1.1")),
		malformed("two spaces after the method", s.request("DELETE  /locks/key/lease HTTP/1.1")),
		malformed("two spaces after the target", s.request("DELETE /locks/key/lease  HTTP/1.1")),
		malformed("space at the end", s.request("DELETE /locks/key/lease HTTP/1.1 ")),
		malformed("space in the target", s.request("DELETE /locks/key /lease HTTP/1.1")),
		malformed("no target", s.request("DELETE HTTP/1.1")),
		malformed("empty target", s.request("DELETE  HTTP/1.1")),
		malformed("carriage return inside", s.request("DELETE /locks/key/lease\r HTTP/1.1")),
		malformed("only spaces", "   \r\n\r\n"),
		malformed("words", s.mark+" is not HTTP\r\n\r\n"),
		{name: "line feed alone at its end", text: s.request("GET /locks/key HTTP/1.1\nX: y"), want: []int{200}},
		{name: "empty lines before", text: "\r\n\r\n" + s.request("GET /locks/key HTTP/1.1"), want: []int{200}},
	}
	for name, text := range map[string]string{"empty lines only": "\r\n\r\n\r\n", "a full stop": "."} {
		rows = append(rows, attack{name: name, text: text + strings.Repeat("\x00", 16<<10), want: []int{431}, closed: true})
	}
	return rows
}

func versions(s *siege) []attack {
	rows := []attack{
		{name: "1.0", text: s.request("GET /locks/key HTTP/1.0"), want: []int{200}, closed: true},
		{name: "1.0 that keeps", text: s.request("GET /locks/key HTTP/1.0", "Connection: keep-alive\r\n"), want: []int{200}},
		{name: "1.0 without a host", text: "GET /locks/key HTTP/1.0\r\n" + s.bearer() + "\r\n", want: []int{200}, closed: true},
		{name: "1.0 to nowhere", text: s.request("GET /nowhere HTTP/1.0"), want: []int{404}, closed: true},
		{name: "1.0 to nowhere that keeps", text: s.request("GET /nowhere HTTP/1.0", "Connection: keep-alive\r\n"), want: []int{404}},
		{name: "1.0 with a bad method", text: s.request("PUT /locks/key HTTP/1.0"), want: []int{405}, closed: true, allow: "GET, DELETE"},
		{name: "1.0 without a credential", text: "GET /locks/key HTTP/1.0\r\n\r\n", want: []int{401}, closed: true},
		{name: "1.0, HEAD", text: s.request("HEAD /locks/key HTTP/1.0"), want: []int{405}, closed: true, allow: "GET, DELETE", head: true},
		malformed("1.0, chunked", s.request("POST /locks/new/lease HTTP/1.0", chunkedHeader)+chunks(ttlBody(60))+"\r\n"),
		malformed("0.9", "GET /locks/key\r\n\r\n"),
		malformed("none", s.request("DELETE /locks/key/lease ")),
	}
	for _, version := range []string{
		"HTTP/0.9", "HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9", "HTTP/2", "HTTP/11", "HTTP/1.10", "HTTP/01.1",
		"HTTP/1.1.1", "HTTP/1,1", "HTTP/-1.1", "HTTP/1.x", "HTTP/", "HTTP", "http/1.1", "HTTPS/1.1", "ICAP/1.0", "HTTP/1.1\x00", "HTTP/timeout",
	} {
		rows = append(rows, malformed(version, s.request("DELETE /locks/key/lease "+version)))
	}
	return rows
}

func methods(s *siege) []attack {
	var rows []attack
	lock := func(method, path, allow string) {
		rows = append(rows, attack{
			name: method[:min(len(method), 12)] + " " + path, text: s.request(method + " " + path + " HTTP/1.1"),
			want: []int{405}, allow: allow, head: method == "HEAD",
		})
	}
	for _, method := range []string{
		"PROPFIND", "FOO", "delete", "Delete", "DELETEX", "DELET", "PRI", "SOURCE", "!#$%&'*+-.^_`|~9", strings.Repeat("M", 200),
		"HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT",
	} {
		lock(method, "/locks/key", "GET, DELETE")
		lock(method, "/locks/key/lease", "POST, PATCH, DELETE")
		rows = append(rows, attack{
			name: method[:min(len(method), 12)] + " elsewhere", text: s.request(method + " /nowhere HTTP/1.1"),
			want: []int{404}, head: method == "HEAD",
		})
	}
	lock("POST", "/locks/key", "GET, DELETE")
	lock("PATCH", "/locks/key", "GET, DELETE")
	lock("GET", "/locks/key/lease", "POST, PATCH, DELETE")
	return append(rows,
		attack{name: "bad method without a credential", text: "FOO /locks/key HTTP/1.1\r\n" + s.host() + s.marks() + "\r\n", want: []int{401}},
		attack{name: "method of 15 KB", text: s.request(strings.Repeat("M", 15<<10) + " /locks/key HTTP/1.1"), want: []int{405}, allow: "GET, DELETE"},
		attack{name: "method of 16 KB", text: s.request(strings.Repeat("M", 16<<10) + " /locks/key HTTP/1.1"), want: []int{431}, closed: true},
	)
}

// targets are spellings of places. With each the owner tries to release the
// lock, and another client to acquire one.
func targets(s *siege) []attack {
	var rows []attack
	each := func(status int, closed bool, targets ...string) {
		for _, target := range targets {
			for _, method := range []string{"DELETE", "POST"} {
				body := ttlBody(60)
				rows = append(rows, attack{
					name: method + " " + target[:min(len(target), 40)], want: []int{status}, closed: closed,
					text: s.request(method+" "+target+" HTTP/1.1", lengthOf(body)) + body,
				})
			}
		}
	}
	long := strings.Repeat("k", 129)
	each(404, false,
		"/", "/?", "/locks", "/locks/", "//locks/key/lease", "///locks/key/lease", "/locks//key/lease", "/locks/key//lease", "/locks/key/lease/",
		"/locks/key/lease//", "/LOCKS/key/lease", "/Locks/key/lease", "/locks/key/Lease", "/locks/key/LEASE",
		"/./locks/key/lease", "/locks/./key/lease", "/locks/key/./lease", "/locks/key/lease/.", "/../locks/key/lease",
		"/x/../locks/key/lease", "/locks/key/x/../lease", "/locks/x/../key/lease", "/locks/key/lease/..", "/%2e/locks/key/lease",
		"/x/%2e%2e/locks/key/lease", "/x/%2E./locks/key/lease", "/locks/%2e%2e/locks/key/lease", "/locks/key/lease/x/%2e%2e",
		"/%2flocks/key/lease", "/locks%2fkey/lease", "/locks%2Fkey%2Flease", "/%6cocks/key/lease", "/lock%73/key/lease", "/locks/key/%6cease",
		"/locks/key/leas%65", "/locks%252fkey/lease", "/locks%5ckey/lease", "/locks\\key\\lease", "/\\locks/key/lease",
		"/locks;a=b/key/lease", "/locks/key/lease;a=b", "/;a=b/locks/key/lease", "/locks/key/lease%3fx", "/locks/key/lease%23", "/locks/key/lease%00",
		"/locks/key/lease%20", "/locks/key/lease%0d%0a", "/locks/key/lease&x", "/locks/key/lease\xff", "/\xef\xbc\x8flocks/key/lease",
		"/?/locks/key/lease", "/x?/locks/key/lease", "/x?a=/../locks/key/lease", "/locks.json/key/lease", "/v1/locks/key/lease", "/"+s.mark,
	)
	each(400, false,
		"/locks/key%2flease/lease", "/locks/key%252flease/lease", "/locks/key%5clease/lease", "/locks/key\\x/lease", "/locks/%2e/lease", "/locks/%2e%2e/lease",
		"/locks/../lease", "/locks/./lease", "/locks/.%2E/lease", "/locks/..%2fkey/lease", "/locks/..;/lease", "/locks/%252e%252e/lease",
		"/locks/key;a=b/lease", "/locks/key%3ba=b/lease", "/locks/key%3f/lease", "/locks/key%23/lease", "/locks/key%00/lease", "/locks/%00key/lease",
		"/locks/key%0a/lease", "/locks/key%0d%0aX:%20y/lease", "/locks/key%09/lease", "/locks/key%20/lease", "/locks/%20key/lease", "/locks/key+/lease",
		"/locks/key*/lease", "/locks/*/lease", "/locks/key,other/lease", "/locks/key@x/lease", "/locks/key=x/lease", "/locks/key~/lease",
		"/locks/key!/lease", "/locks/'key'/lease", "/locks/\"key\"/lease", "/locks/<key>/lease", "/locks/{key}/lease", "/locks/key|x/lease", "/locks/key^/lease",
		"/locks/key`/lease", "/locks/%c0%ae%c0%ae/lease", "/locks/%c0%afkey/lease", "/locks/%e0%80%afkey/lease", "/locks/%f0%80%80%afkey/lease",
		"/locks/k%c3%a9y/lease", "/locks/k\xc3\xa9y/lease", "/locks/k\xe9y/lease", "/locks/%ff/lease", "/locks/\xff/lease", "/locks/%ef%bb%bfkey/lease",
		"/locks/%e2%80%8bkey/lease", "/locks/\xef\xbd\x8bey/lease", "/locks/key%7f/lease", "/locks/key%/lease", "/locks/key%2/lease", "/locks/key%zz/lease",
		"/locks/key%u002e/lease", "/locks/%/lease", "/locks/"+long+"/lease", "/locks/"+strings.Repeat("%6b", 129)+"/lease",
		"/locks/"+strings.Repeat("k", 15<<10)+"/lease", "/locks/%"+s.mark+"/lease",
	)
	each(400, true,
		"http://gateway/locks/key/lease", "HTTP://gateway/locks/key/lease", "https://gateway/locks/key/lease", "http://evil/locks/key/lease",
		"http://evil@gateway/locks/key/lease", "http://gateway@evil/locks/key/lease", "http:///locks/key/lease", "http://gateway:80/locks/key/lease",
		"http://[::1/locks/key/lease", "http://gateway", "http://gateway?/locks/key/lease", "http://", "ftp://gateway/locks/key/lease", "file:///locks/key/lease",
		"javascript://gateway/locks/key/lease", "://gateway/locks/key/lease", "http:/locks/key/lease", "http:locks/key/lease", "locks/key/lease",
		"./locks/key/lease", "key", "gateway:80", "*", "?", ";", "#", "@", "%2flocks/key/lease", "\\locks\\key\\lease", "\xff",
		"/locks/key/lease#", "/locks/key#/lease", "/#/locks/key/lease", "#/locks/key/lease", "/locks/key/lease?#", "/locks/key/lease?x=#y",
		"/locks/key\x00/lease", "/locks/key/lease\x00", "/locks/key/lease\x01", "/locks/key\x7f/lease", "/locks/key\t/lease", "/locks/key/lease\x0b",
		"http://"+s.mark+"/locks/key/lease",
	)
	for _, target := range []string{"//gateway/locks/key/lease", "//evil/locks/key/lease", "//evil@gateway/locks/key/lease", "///locks/key/lease", "http://gateway/locks/key/lease"} {
		// Without a host some take it from the target.
		rows = append(rows, malformed("1.0 without a host "+target, "DELETE "+target+" HTTP/1.0\r\n"+s.bearer()+s.token()+s.marks()+"\r\n"))
	}
	for _, target := range []string{"gateway:443", "evil:80", "locks/key", "@", "http://gateway/locks/key"} {
		rows = append(rows, malformed("CONNECT "+target, s.request("CONNECT "+target+" HTTP/1.1")))
	}
	return append(rows,
		malformed("OPTIONS *", s.request("OPTIONS * HTTP/1.1")),
		attack{name: "a query is not looked at", text: s.request("GET /locks/key?" + s.mark + "=/../../other HTTP/1.1"), want: []int{200}},
		attack{name: "nor an empty one", text: s.request("GET /locks/key? HTTP/1.1"), want: []int{200}},
		attack{name: "letters may be encoded once", text: s.request("GET /locks/%6b%65%79 HTTP/1.1"), want: []int{200}},
	)
}
