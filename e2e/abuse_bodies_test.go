package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

// acquireLine begins the request for a lock that nobody holds. No attack may get it.
const acquireLine = "POST /locks/new/lease HTTP/1.1"

// smuggled is a request that must never be taken for one: it stands where only
// a body can be.
func (s *siege) smuggled() string {
	body := ttlBody(60)
	return s.request("POST /locks/smuggled/lease HTTP/1.1", lengthOf(body)) + body
}

func badFraming(s *siege) []attack {
	body := ttlBody(60)
	var rows []attack
	for name, headers := range map[string]string{
		"two lengths":                         lengthOf(body) + "Content-Length: 0\r\n",
		"the same length twice":               lengthOf(body) + lengthOf(body),
		"two lengths in two cases":            lengthOf(body) + "content-length: 0\r\n",
		"a list of lengths":                   "Content-Length: 18, 18\r\n",
		"a length and chunked":                lengthOf(body) + chunkedHeader,
		"chunked and a length":                chunkedHeader + lengthOf(body),
		"a length and identity":               lengthOf(body) + "Transfer-Encoding: identity\r\n",
		"identity":                            "Transfer-Encoding: identity\r\n",
		"chunked twice":                       chunkedHeader + chunkedHeader,
		"chunked in a list":                   "Transfer-Encoding: gzip, chunked\r\n",
		"chunked, then identity":              "Transfer-Encoding: chunked, identity\r\n",
		"chunked and gzip":                    chunkedHeader + "Transfer-Encoding: gzip\r\n",
		"an unknown encoding":                 "Transfer-Encoding: xchunked\r\n",
		"an empty encoding":                   "Transfer-Encoding:\r\n" + lengthOf(body),
		"chunked, quoted":                     "Transfer-Encoding: \"chunked\"\r\n",
		"chunked with a vertical tab":         "Transfer-Encoding: \x0bchunked\r\n",
		"chunked with a parameter":            "Transfer-Encoding: chunked;q=1\r\n",
		"chunked with a space before its end": "Transfer-Encoding : chunked\r\n",
		"chunked, folded":                     "Transfer-Encoding:\r\n chunked\r\n",
		"a length, folded":                    "Content-Length:\r\n 18\r\n",
		"a length after a line feed":          "X: y\nContent-Length: 18\r\n",
		"chunked after a carriage return":     "X: y\rTransfer-Encoding: chunked\r\n",
		"a length with a sign":                "Content-Length: +18\r\n",
		"a negative length":                   "Content-Length: -1\r\n",
		"minus nothing":                       "Content-Length: -0\r\n",
		"a length in hexadecimal":             "Content-Length: 0x12\r\n",
		"a length with a point":               "Content-Length: 18.0\r\n",
		"a length with an exponent":           "Content-Length: 1e1\r\n",
		"a length with a space":               "Content-Length: 1 8\r\n",
		"a length with text":                  "Content-Length: 18" + s.mark + "\r\n",
		"a length in other digits":            "Content-Length: \u0661\u0668\r\n",
		"no length at all":                    "Content-Length:\r\n",
		"a length past 64 bits":               "Content-Length: 18446744073709551634\r\n",
		"a length past 63 bits":               "Content-Length: 9223372036854775826\r\n",
	} {
		rows = append(rows, malformed(name, s.request(acquireLine, headers)+chunks(body)+"\r\n"+s.smuggled()))
	}
	return append(rows, attack{
		// What is no body must be a request, and this is none.
		name: "the body without its length", text: s.request(acquireLine) + body + s.smuggled(), want: []int{400, 400}, closed: true,
	})
}

func badChunks(s *siege) []attack {
	body := ttlBody(60)
	size := fmt.Sprintf("%x", len(body))
	rest := "\r\n" + body + "\r\n0\r\n\r\n"
	var rows []attack
	for name, text := range map[string]string{
		"a size that is no number":            s.mark + rest,
		"a size with a sign":                  "+" + size + rest,
		"a negative size":                     "-" + size + rest,
		"a size with 0x":                      "0x" + size + rest,
		"no size":                             rest,
		"a space before the size":             " " + size + rest,
		"a size with text":                    size + s.mark + rest,
		"a size past 64 bits":                 "10000000000000012" + rest,
		"a size of 64 bits":                   "ffffffffffffffff" + rest,
		"a size of 63 bits":                   "7fffffffffffffff" + rest,
		"a size of 40 digits":                 strings.Repeat("0", 38) + size + rest,
		"a size that ends with a line feed":   size + "\n" + rest[2:],
		"line feeds only":                     size + "\n" + body + "\n0\n\n",
		"an extension with a line feed":       size + ";a\nb" + rest,
		"an extension with a return":          size + ";a\rb" + rest,
		"an extension of 64 KB":               size + ";" + strings.Repeat("a", 64<<10) + rest,
		"too much in a chunk":                 "11" + rest,
		"too little in a chunk":               "13" + rest,
		"no end of a chunk":                   size + "\r\n" + body + "0\r\n\r\n",
		"a last chunk with a sign":            size + "\r\n" + body + "\r\n-0\r\n\r\n",
		"a trailer that is no header":         chunks(body) + s.mark + "\r\n\r\n",
		"a trailer of 64 KB":                  chunks(body) + "X: " + strings.Repeat("y", 64<<10) + "\r\n\r\n",
		"a trailer with a length":             chunks(body) + "Content-Length: 5\r\n\r\n",
		"a trailer with another encoding":     chunks(body) + chunkedHeader + "\r\n",
		"extensions that outweigh the chunks": strings.Repeat("1;"+strings.Repeat("a", 4_000)+"\r\n \r\n", 100) + "0\r\n\r\n",
	} {
		rows = append(rows, malformed(name, s.request(acquireLine, chunkedHeader)+text+s.smuggled()))
	}
	return rows
}

func trailers(s *siege) []attack {
	body := ttlBody(60)
	id := requestIDHeader + ": " + s.mark + "\r\n"
	without := func(line string, headers ...string) string {
		return line + "\r\n" + s.host() + s.marks() + chunkedHeader + strings.Join(headers, "") + "\r\n"
	}
	announce := func(name string) string { return "Trailer: " + name + "\r\n" }
	return []attack{
		{name: "the lock token", text: without(acquireLine, s.bearer()) + chunks(body) + s.token() + "\r\n", want: []int{400}},
		{name: "the lock token, announced", want: []int{400},
			text: without(acquireLine, s.bearer(), announce(lockTokenHeader)) + chunks(body) + s.token() + "\r\n"},
		{name: "the lock token of a release", text: without(releaseLine, s.bearer()) + chunks() + s.token() + "\r\n", want: []int{400}},
		// The trailer is refused after the answer, which is why the connection ends.
		{name: "the credential", text: without(acquireLine, s.token()) + chunks(body) + s.bearer() + "\r\n", want: []int{401}, closed: true},
		malformed("the credential, announced", without(acquireLine, s.token(), announce(authorization))+chunks(body)+s.bearer()+"\r\n"),
		{name: "a request id", text: without("GET /locks/key HTTP/1.1", s.bearer()) + chunks(body) + id + "\r\n", want: []int{200}},
		{name: "a request id, announced", text: without("GET /locks/key HTTP/1.1", s.bearer(), announce(requestIDHeader)) + chunks(body) + id + "\r\n", want: []int{200}},
		{name: "a folded one", text: without("GET /locks/key HTTP/1.1", s.bearer()) + chunks(body) + "X: y\r\n z\r\n\r\n", want: []int{200}},
		{name: "a trailer without an end", text: without("GET /locks/key HTTP/1.1", s.bearer()) + chunks(body) + strings.Repeat("X: y\r\n", 10_000), want: []int{200}, closed: true},
	}
}

func largeBodies(s *siege) []attack {
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	send := func(body string, headers ...string) string {
		return s.request(acquireLine, append(headers, lengthOf(body))...) + body
	}
	const expect = "Expect: 100-continue\r\n"
	return []attack{
		{name: "a byte too much", text: send(spaces(4097)), want: []int{413}},
		{name: "5 KB", text: send(spaces(5 << 10)), want: []int{413}},
		{name: "200 KB", text: send(spaces(200 << 10)), want: []int{413}},
		{name: "2 MB", text: send(spaces(2 << 20)), want: []int{413}, closed: true},
		{name: "4 GB, of which 1 MB comes", text: s.request(acquireLine, "Content-Length: 4294967296\r\n") + spaces(1<<20), want: []int{413}, closed: true},
		{name: "8 EB, of which 1 MB comes", text: s.request(acquireLine, "Content-Length: 9223372036854775807\r\n") + spaces(1<<20), want: []int{413}, closed: true},
		{name: "a byte too much, expected", text: send(spaces(4097), expect), want: []int{100, 413}},
		{name: "2 MB, expected", text: send(spaces(2<<20), expect), want: []int{100, 413}, closed: true},
		{name: "a byte too much in a chunk", text: s.request(acquireLine, chunkedHeader) + chunks(spaces(4097)) + "\r\n", want: []int{413}, closed: true},
		{name: "5,000 chunks", text: s.request(acquireLine, chunkedHeader) + chunks(strings.Split(spaces(4999), "")...) + "\r\n", want: []int{413}, closed: true},
		{name: "2 MB in chunks", text: s.request(acquireLine, chunkedHeader) + chunks(strings.SplitAfter(strings.Repeat(spaces(1023)+"\n", 2<<10), "\n")...) + "\r\n", want: []int{413}, closed: true},
		{name: "2 MB in chunks, expected", text: s.request(acquireLine, chunkedHeader, expect) + chunks(spaces(2<<20)) + "\r\n", want: []int{100, 413}, closed: true},
		{name: "2 GB in a chunk, of which 1 MB comes", text: s.request(acquireLine, chunkedHeader) + "7fffffff\r\n" + spaces(1<<20), want: []int{413}, closed: true},
		{name: "200 KB to nowhere", want: []int{404}, text: s.request("POST /nowhere HTTP/1.1", lengthOf(spaces(200<<10))) + spaces(200<<10)},
		{name: "2 MB to nowhere", want: []int{404}, closed: true, text: s.request("POST /nowhere HTTP/1.1", lengthOf(spaces(2<<20))) + spaces(2<<20)},
		{name: "200 KB without a credential", want: []int{401},
			text: acquireLine + "\r\n" + s.host() + s.marks() + lengthOf(spaces(200<<10)) + "\r\n" + spaces(200<<10)},
	}
}

// foreignBodies hold a good TTL, in a form that is not asked for.
func foreignBodies(s *siege) []attack {
	body := ttlBody(60)
	squeezed := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write([]byte(text)) // into memory
		_ = w.Close()
		return out.String()
	}
	form := "--x\r\nContent-Disposition: form-data; name=\"ttl_seconds\"; filename=\"" + s.mark + "\"\r\n\r\n60\r\n--x--\r\n"
	var rows []attack
	for name, row := range map[string]struct{ headers, body string }{
		"a gzip bomb":               {"Content-Encoding: gzip\r\n", squeezed(strings.Repeat(" ", 3<<20) + body)},
		"gzip":                      {"Content-Encoding: gzip\r\n", squeezed(body)},
		"gzip, twice":               {"Content-Encoding: gzip, gzip\r\n", squeezed(squeezed(body))},
		"gzip that does not say so": {"", squeezed(body)},
		"gzip that is none":         {"Content-Encoding: gzip\r\n", body},
		"deflate":                   {"Content-Encoding: deflate\r\n", body},
		"br":                        {"Content-Encoding: br\r\n", body},
		"zstd":                      {"Content-Encoding: zstd\r\n", body},
		"identity":                  {"Content-Encoding: identity\r\n", body},
		"an unknown encoding":       {"Content-Encoding: " + s.mark + "\r\n", body},
		"multipart":                 {"Content-Type: multipart/form-data; boundary=x\r\n", form},
		"multipart, gzip":           {"Content-Type: multipart/form-data; boundary=x\r\nContent-Encoding: gzip\r\n", squeezed(form)},
		"multipart, no boundary":    {"Content-Type: multipart/form-data\r\n", form},
		"a form":                    {"Content-Type: application/x-www-form-urlencoded\r\n", "ttl_seconds=60&" + s.mark + "=1"},
		"XML":                       {"Content-Type: application/xml\r\n", "<ttl_seconds>60</ttl_seconds>"},
		"UTF-16":                    {"Content-Type: application/json; charset=utf-16\r\n", "\xff\xfe{\x00\"\x00t\x00"},
		"a name with an escape":     {"", `{"ttl_second\u0073":60,"` + s.mark + `":1}`},
		"4,000 brackets":            {"", strings.Repeat("[", 4_000)},
		"4,000 objects":             {"", strings.Repeat(`{"a":`, 800)},
		"a number of 4,000 digits":  {"", `{"ttl_seconds":` + strings.Repeat("9", 4_000) + "}"},
		"an exponent":               {"", `{"ttl_seconds":1e999999999}`},
		"text that is no UTF-8":     {"", "{\"\xff\xfe\":60}"},
		"nothing but the mark":      {"", s.mark},
	} {
		rows = append(rows, attack{name: name, text: s.request(acquireLine, row.headers, lengthOf(row.body)) + row.body, want: []int{400}})
	}
	return rows
}

// strayBodies come with requests that have none. They look like requests.
func strayBodies(s *siege) []attack {
	body := s.smuggled()
	var rows []attack
	for _, row := range []attack{
		{name: "GET /locks/key", want: []int{200}},
		{name: "HEAD /locks/key", want: []int{405}, allow: "GET, DELETE", head: true},
		{name: "OPTIONS /locks/key", want: []int{405}, allow: "GET, DELETE"},
		{name: "TRACE /locks/key", want: []int{405}, allow: "GET, DELETE"},
		{name: "CONNECT /locks/key", want: []int{405}, allow: "GET, DELETE"},
		{name: "BREW /locks/key", want: []int{405}, allow: "GET, DELETE"},
		{name: "GET /nowhere", want: []int{404}},
		{name: "HEAD /nowhere", want: []int{404}, head: true},
		{name: "DELETE /nowhere", want: []int{404}},
		{name: "DELETE /locks/new/lease", want: []int{204}},
		{name: "DELETE /locks/a%20b", want: []int{400}},
	} {
		sized, chunked := row, row
		sized.text = s.request(row.name+" HTTP/1.1", lengthOf(body)) + body
		chunked.text, chunked.name = s.request(row.name+" HTTP/1.1", chunkedHeader)+chunks(body)+"\r\n", row.name+", chunked"
		rows = append(rows, sized, chunked)
	}
	return append(rows, attack{
		name: "GET of a body without an end", closed: true, want: []int{200},
		text: s.request("GET /locks/key HTTP/1.1", chunkedHeader) + strings.Repeat("1000\r\n"+strings.Repeat(" ", 4096)+"\r\n", 200),
	})
}

func expectations(s *siege) []attack {
	body := ttlBody(4)
	renewLine := "PATCH /locks/key/lease HTTP/1.1"
	send := func(line string, expect ...string) string {
		headers := ""
		for _, e := range expect {
			headers += "Expect: " + e + "\r\n"
		}
		return s.request(line, headers, lengthOf(body)) + body
	}
	return []attack{
		{name: "100-continue", text: send(renewLine, "100-continue"), want: []int{100, 400}},
		{name: "100-Continue", text: send(renewLine, "100-Continue"), want: []int{100, 400}},
		{name: "twice", text: send(renewLine, "100-continue", "100-continue"), want: []int{100, 400}},
		{name: "something else", text: send(renewLine, s.mark), want: []int{400}},
		{name: "200-ok", text: send(renewLine, "200-ok"), want: []int{400}},
		{name: "nothing", text: send(renewLine, ""), want: []int{400}},
		{name: "in 1.0", text: send("PATCH /locks/key/lease HTTP/1.0", "100-continue"), want: []int{400}, closed: true},
		{name: "without a body", text: s.request("GET /locks/key HTTP/1.1", "Expect: 100-continue\r\n"), want: []int{100, 200}},
		{name: "nowhere", text: send("POST /nowhere HTTP/1.1", "100-continue"), want: []int{100, 404}},
		{name: "with a bad chunk", text: s.request(renewLine, "Expect: 100-continue\r\n", chunkedHeader) + s.mark + "\r\n", want: []int{100, 400}, closed: true},
		malformed("with two lengths", s.request(renewLine, "Expect: 100-continue\r\n", lengthOf(body), lengthOf(body))+body),
	}
}

func otherProtocols(s *siege) []attack {
	return []attack{
		malformed("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		malformed("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\n", 500)),
		malformed("the proxy protocol", "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"+s.request(releaseLine)),
		malformed("the proxy protocol, version 2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\x00\x50\x00\x50"+s.request(releaseLine)),
		malformed("Redis", "*1\r\n$8\r\nFLUSHALL\r\n"),
		malformed("mail", "EHLO "+s.mark+"\r\nMAIL FROM:<"+s.mark+">\r\n"),
		malformed("SSH", "SSH-2.0-"+s.mark+"\r\n"),
		malformed("a shell", "() { :;}; /bin/id\r\n\r\n"),
		{name: "noise", text: strings.Repeat("\xde\xad\xbe\xef", 8<<10), want: []int{431}, closed: true},
	}
}

// pipelines are requests in a row, with bad ones among them.
func pipelines(s *siege) []attack {
	good, nowhere := s.request("GET /locks/key HTTP/1.1"), s.request("GET /nowhere HTTP/1.1")
	refused := strings.Replace(good, "Bearer ", "Basic ", 1)
	invalid := s.request(acquireLine, lengthOf("{}")) + "{}"
	bad := s.request("GET /locks/key#x HTTP/1.1")
	return []attack{
		{name: "good ones", text: strings.Repeat(good, 5), want: []int{200, 200, 200, 200, 200}},
		{name: "refused ones between", text: good + refused + nowhere + invalid + good, want: []int{200, 401, 404, 400, 200}},
		{name: "nothing behind a malformed one", text: good + "GET\r\n\r\n" + s.smuggled(), want: []int{200, 400}, closed: true},
		{name: "nothing behind an ambiguous one", text: good + bad + s.smuggled(), want: []int{200, 400}, closed: true},
		{name: "nothing behind the last one", text: s.request("GET /locks/key HTTP/1.1", "Connection: close\r\n") + s.smuggled(), want: []int{200}, closed: true},
		{name: "nothing behind HTTP/1.0", text: s.request("GET /locks/key HTTP/1.0") + s.smuggled(), want: []int{200}, closed: true},
		{name: "nothing behind a body that is too large", want: []int{413}, closed: true,
			text: s.request(acquireLine, chunkedHeader) + chunks(strings.Repeat(" ", 4097)) + "\r\n" + s.smuggled()},
		{name: "nothing behind a bad chunk", want: []int{400}, closed: true,
			text: s.request(acquireLine, chunkedHeader) + "x\r\n" + s.smuggled()},
		{name: "behind a CONNECT it is still HTTP", text: s.request("CONNECT /nowhere HTTP/1.1") + good, want: []int{404, 200}},
		{name: "behind an upgrade too", text: s.request("GET /locks/key HTTP/1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\n") + good, want: []int{200, 200}},
	}
}

// planted have the mark in each part of a request that is refused, one after
// the other, so that an answer or a log line that quotes any part is found.
func planted(s *siege) []attack {
	m := s.mark
	body := `{"` + m + `":1}`
	answers := func(name, text string, status int) attack { return attack{name: name, text: text, want: []int{status}} }
	only := func(headers ...string) string { return s.host() + strings.Join(headers, "") + "\r\n" }
	return []attack{
		answers("in the method", s.request(m+" /nowhere HTTP/1.1"), 404),
		answers("in the path", s.request("GET /"+m+" HTTP/1.1"), 404),
		answers("in the key", s.request("GET /locks/"+m+"%20 HTTP/1.1"), 400),
		answers("in the query", s.request("GET /nowhere?"+m+"="+m+" HTTP/1.1"), 404),
		malformed("in the fragment", s.request("GET /nowhere#"+m+" HTTP/1.1")),
		malformed("in the version", s.request("GET /nowhere HTTP/"+m)),
		malformed("in the host", "GET /nowhere HTTP/1.1\r\nHost: "+m+"@"+m+"\r\n\r\n"),
		malformed("in a broken header", "GET /nowhere HTTP/1.1\r\n"+only(m+"\r\n")),
		malformed("in a broken name", "GET /nowhere HTTP/1.1\r\n"+only(m+" : x\r\n")),
		malformed("in a broken value", "GET /nowhere HTTP/1.1\r\n"+only("X: "+m+"\x00\r\n")),
		malformed("in a broken length", s.request(acquireLine, "Content-Length: "+m+"\r\n")),
		malformed("in a broken encoding", s.request(acquireLine, "Transfer-Encoding: "+m+"\r\n")),
		malformed("in the announcement of a trailer", s.request(acquireLine, chunkedHeader, "Trailer: Authorization, "+m+"\r\n")),
		malformed("in a chunk's size", s.request(acquireLine, chunkedHeader)+m+"\r\n"),
		malformed("in a chunk's extension", s.request(acquireLine, chunkedHeader)+"1;"+m+"\n\r\n"),
		malformed("in a chunk", s.request(acquireLine, chunkedHeader)+"1\r\n"+m+"\r\n0\r\n\r\n"),
		malformed("in a trailer", s.request(acquireLine, chunkedHeader)+chunks(ttlBody(60))+m+"\r\n\r\n"),
		answers("in the request id", s.request(releaseLine, requestIDHeader+": "+m+"\r\n"), 400),
		answers("in the scheme", releaseLine+"\r\n"+only(authorization+": "+m+" "+m+"\r\n"), 401),
		answers("in the credential", releaseLine+"\r\n"+only(authorization+": Bearer "+m+"\r\n"), 401),
		answers("in the key id", releaseLine+"\r\n"+only(authorization+": Bearer "+encode([]byte(`{"alg":"HS256","kid":"`+m+`"}`))+".e30.e30\r\n"), 401),
		answers("in the algorithm", releaseLine+"\r\n"+only(authorization+": Bearer "+encode([]byte(`{"alg":"`+m+`"}`))+".e30.e30\r\n"), 401),
		answers("in the lock token", releaseLine+"\r\n"+only(s.bearer(), lockTokenHeader+": "+m+"\r\n"), 400),
		answers("in the body", s.request(acquireLine, lengthOf(body))+body, 400),
		answers("in the body's number", s.request(acquireLine, lengthOf(`{"ttl_seconds":"`+m+`"}`))+`{"ttl_seconds":"`+m+`"}`, 400),
		{name: "in a body that is too large", text: s.request(acquireLine, chunkedHeader) + chunks(strings.Repeat(m, 200)) + "\r\n", want: []int{413}, closed: true},
		{name: "in a head that is too large", text: s.request(releaseLine, "X: "+strings.Repeat(m, 1_000)+"\r\n"), want: []int{431}, closed: true},
		{name: "in another's method", text: s.request(m + " /locks/key HTTP/1.1"), want: []int{405}, allow: "GET, DELETE"},
	}
}
