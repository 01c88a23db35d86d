package e2e

import (
	"strings"

	"github.com/google/uuid"
)

// releaseLine begins the request of the owner that no attack may bring to its end.
const releaseLine = "DELETE /locks/key/lease HTTP/1.1"

func badHeaders(s *siege) []attack {
	rows := []attack{}
	for name, header := range map[string]string{
		"folded":                          "X: y\r\n z\r\n",
		"folded with a tab":               "X: y\r\n\tz\r\n",
		"folded with nothing":             "X: y\r\n \r\n",
		"a folded request id":             requestIDHeader + ":\r\n " + uuid.NewString() + "\r\n",
		"a line feed alone":               "X: y\nZ: z\r\n",
		"a line feed alone, folded":       "X: y\n z\r\n",
		"a line feed in the request id":   requestIDHeader + ": " + uuid.NewString() + "\nX: y\r\n",
		"a carriage return alone":         "X: y\rZ: z\r\n",
		"a carriage return at the end":    "X: y\r\r\n",
		"NUL in the value":                "X: y\x00z\r\n",
		"NUL in the name":                 "X\x00: y\r\n",
		"a vertical tab":                  "X: y\x0bz\r\n",
		"an escape":                       "X: \x1b[31m\r\n",
		"a delete character":              "X: \x7f\r\n",
		"no colon":                        "X\r\n",
		"no name":                         ": y\r\n",
		"a space in the name":             "X Y: z\r\n",
		"a space after the name":          "X : y\r\n",
		"a tab after the name":            "X\t: y\r\n",
		"a space before the name":         " X: y\r\n",
		"an accent in the name":           "X\xe9: y\r\n",
		"brackets in the name":            "X(y): z\r\n",
		"a slash in the name":             "X/Y: z\r\n",
		"only a colon":                    ":\r\n",
		"two hosts":                       "Host: other\r\n",
		"the same host again":             s.host(),
		"a host in another case":          "hOST: gateway\r\n",
		"two types":                       "Content-Type: text/plain\r\nContent-Type: application/json\r\n",
		"a trailer that names the length": "Trailer: Content-Length\r\n",
	} {
		rows = append(rows, malformed(name, s.request(releaseLine, header)))
	}
	for name, host := range map[string]string{
		"no host": "", "an empty host": "Host:\r\n", "a host of spaces": "Host:   \r\n", "a user in the host": "Host: " + s.mark + "@gateway\r\n",
		"a path in the host": "Host: gateway/locks\r\n", "a space in the host": "Host: gate way\r\n", "a broken address": "Host: [::1\r\n",
	} {
		rows = append(rows, malformed(name, releaseLine+"\r\n"+host+s.bearer()+s.token()+s.marks()+"\r\n"))
	}
	return append(rows,
		malformed("folded before the first header", releaseLine+"\r\n x\r\n"+s.known()+s.marks()+"\r\n"),
		malformed("a folded credential", releaseLine+"\r\n"+s.host()+strings.Replace(s.bearer(), " ", "\r\n ", 1)+s.token()+"\r\n"),
		malformed("a folded lock token", releaseLine+"\r\n"+s.host()+s.bearer()+strings.Replace(s.token(), " ", "\r\n\t", 1)+"\r\n"),
		attack{name: "letters of Latin-1 in a value", text: s.request("GET /locks/key HTTP/1.1", "X: caf\xe9\r\n"), want: []int{200}},
		attack{name: "no space after the colon", text: s.request("GET /locks/key HTTP/1.1", "X:y\r\n"), want: []int{200}},
		attack{name: "no value", text: s.request("GET /locks/key HTTP/1.1", "X:\r\n"), want: []int{200}},
	)
}

func largeHeads(s *siege) []attack {
	var rows []attack
	for name, header := range map[string]string{
		"10,000 headers":     strings.Repeat("a:\r\n", 10_000),
		"one header, 16 KB":  "X: " + strings.Repeat("y", 16<<10) + "\r\n",
		"one header, 1 MB":   "X: " + strings.Repeat("y", 1<<20) + "\r\n",
		"a name of 16 KB":    strings.Repeat("X", 16<<10) + ": y\r\n",
		"a cookie of 64 KB":  "Cookie: " + strings.Repeat("y", 64<<10) + "\r\n",
		"a request id, 1 MB": requestIDHeader + ": " + strings.Repeat("0", 1<<20) + "\r\n",
		"a lock token, 1 MB": lockTokenHeader + ": " + strings.Repeat("0", 1<<20) + "\r\n",
		"a credential, 1 MB": authorization + ": Bearer " + strings.Repeat("e", 1<<20) + "\r\n",
		"folded 8,000 times": "X: y\r\n" + strings.Repeat(" \r\n", 8_000),
	} {
		rows = append(rows, attack{name: name, text: s.request(releaseLine, header), want: []int{431}, closed: true})
	}
	for name, line := range map[string]string{
		"a target of 16 KB": "DELETE /locks/" + strings.Repeat("k", 16<<10) + "/lease HTTP/1.1",
		"a target of 1 MB":  "DELETE /locks/" + strings.Repeat("k", 1<<20) + "/lease HTTP/1.1",
		"a query of 16 KB":  "DELETE /locks/key/lease?" + strings.Repeat("q", 16<<10) + " HTTP/1.1",
		"a version of 1 MB": "DELETE /locks/key/lease HTTP/" + strings.Repeat("1", 1<<20),
	} {
		rows = append(rows, attack{name: name, text: s.request(line), want: []int{431}, closed: true})
	}
	return append(rows,
		attack{name: "1 MB without an end", text: strings.Repeat("x", 1<<20), want: []int{431}, closed: true},
		attack{name: "240 headers more", text: s.request("GET /locks/key HTTP/1.1", strings.Repeat("a:\r\n", 240)), want: []int{200}},
		attack{name: "3,000 headers", text: s.request("GET /locks/key HTTP/1.1", strings.Repeat("a:\r\n", 3_000)), want: []int{431}, closed: true},
	)
}

// doubledHeaders are headers that must be there once, in two spellings.
func doubledHeaders(s *siege) []attack {
	var rows []attack
	id := requestIDHeader + ": " + uuid.NewString() + "\r\n"
	for _, row := range []struct {
		name, header string
		status       int
	}{
		{"Authorization", s.bearer(), 401},
		{"request id", id + id, 400},
		{"lock token", s.token(), 400},
	} {
		name, value, _ := strings.Cut(row.header, ":")
		for how, second := range map[string]string{
			"twice":              row.header,
			"in lower case":      strings.ToLower(name) + ":" + value,
			"in upper case":      strings.ToUpper(name) + ":" + value,
			"with another value": name + ": " + s.mark + "\r\n",
			"with no value":      name + ":\r\n",
		} {
			header := second
			if row.name == "request id" {
				header = id + second
			}
			rows = append(rows, attack{name: row.name + " " + how, text: s.request(releaseLine, header), want: []int{row.status}})
		}
	}
	bare := func(headers ...string) string {
		return releaseLine + "\r\n" + s.host() + s.marks() + strings.Join(headers, "") + "\r\n"
	}
	underscored := func(header string) string {
		name, value, _ := strings.Cut(header, ":")
		return strings.ReplaceAll(name, "-", "_") + ":" + value
	}
	return append(rows,
		attack{name: "two credentials in one", text: bare(strings.TrimSpace(s.bearer())+", Bearer "+s.credential+"\r\n", s.token()), want: []int{401}},
		attack{name: "two lock tokens in one", text: bare(s.bearer(), strings.TrimSpace(s.token())+", "+s.owner.String()+"\r\n"), want: []int{400}},
		attack{name: "lock token with underscores", text: bare(s.bearer(), underscored(s.token())), want: []int{400}},
		attack{name: "lock token with dots", text: bare(s.bearer(), strings.Replace(s.token(), "X-Volcano-Lock-", "X.Volcano.Lock.", 1)), want: []int{400}},
		attack{name: "lock token without X-", text: bare(s.bearer(), s.token()[2:]), want: []int{400}},
		attack{name: "credential under another name", text: bare("Proxy-"+s.bearer(), "X-"+s.bearer(), "X-Forwarded-"+s.bearer(), s.token()), want: []int{401}},
		attack{name: "credential in a cookie", text: bare("Cookie: "+authorization+"="+s.credential+"\r\n", s.token()), want: []int{401}},
		attack{name: "credential in the query", want: []int{401},
			text: "DELETE /locks/key/lease?access_token=" + s.credential + "&authorization=" + s.credential + " HTTP/1.1\r\n" + s.host() + s.token() + "\r\n"},
		attack{name: "names in any case", text: "GET /locks/key HTTP/1.1\r\nhost: gateway\r\naUTHORIZATION: bEARER " + s.credential + "\r\n\r\n", want: []int{200}},
		attack{name: "spaces around values", want: []int{200},
			text: "GET /locks/key HTTP/1.1\r\nHost: \t gateway \t\r\n" + authorization + ": \t Bearer " + s.credential + " \t \r\n\r\n"},
	)
}

func badRequestIDs(s *siege) []attack {
	var rows []attack
	id := uuid.NewString()
	for name, value := range map[string]string{
		"10,000 characters": strings.Repeat("0", 10_000),
		"text":              s.mark,
		"braces":            "{" + id + "}",
		"URN":               "urn:uuid:" + id,
		"no dashes":         strings.ReplaceAll(id, "-", ""),
		"with JSON":         `x","lock_key":"` + s.mark,
		"with an accent":    id[:35] + "\xe9",
		"with UTF-8":        id[:34] + "é",
		"two in one":        id + "," + id,
		"quoted":            `"` + id + `"`,
		"percent-encoded":   "%61" + id[1:],
	} {
		rows = append(rows, attack{name: name, text: s.request(releaseLine, requestIDHeader+": "+value+"\r\n"), want: []int{400}})
	}
	return rows
}

func badCredentials(s *siege) []attack {
	var rows []attack
	none := encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(`{"role":"service_role"}`)) + "."
	parts := strings.Split(strings.TrimPrefix(s.credential, "sk-"), ".")
	for name, value := range map[string]string{
		"nothing":                 "",
		"only the scheme":         "Bearer",
		"no scheme":               s.credential,
		"another scheme":          "Basic " + s.mark,
		"scheme and more":         "BearerX " + s.credential,
		"a tab":                   "Bearer\t" + s.credential,
		"two spaces":              "Bearer  " + s.credential,
		"a space and a tab":       "Bearer \t" + s.credential,
		"a space inside":          "Bearer " + s.credential[:40] + " " + s.credential[40:],
		"no-break space":          "Bearer\xc2\xa0" + s.credential,
		"letters after it":        "Bearer " + s.credential + "x",
		"padding after it":        "Bearer " + s.credential + "==",
		"a comma after it":        "Bearer " + s.credential + ",",
		"parameters":              "Bearer token=" + s.credential,
		"quotes":                  `Bearer "` + s.credential + `"`,
		"two prefixes":            "Bearer sk-" + s.credential,
		"another prefix":          "Bearer ak-" + strings.TrimPrefix(s.credential, "sk-"),
		"9 KB":                    "Bearer " + strings.Repeat("e", 9<<10),
		"14 KB of dots":           "Bearer " + strings.Repeat(".", 14<<10),
		"5,000 parts":             "Bearer " + strings.Repeat("e.", 5_000),
		"a name":                  "Bearer " + s.mark,
		"three names":             "Bearer " + s.mark + "." + s.mark + "." + s.mark,
		"no signature":            "Bearer " + parts[0] + "." + parts[1] + ".",
		"no claims":               "Bearer " + parts[0] + ".." + parts[2],
		"no header":               "Bearer ." + parts[1] + "." + parts[2],
		"two of three parts":      "Bearer " + parts[0] + "." + parts[1],
		"four parts":              "Bearer " + strings.Join(parts, ".") + "." + parts[2],
		"algorithm none":          "Bearer " + none,
		"a header of another":     "Bearer " + encode([]byte(`{"alg":"RS256","kid":"`+s.mark+`"}`)) + "." + parts[1] + "." + parts[2],
		"a header that is a bomb": "Bearer " + encode([]byte(strings.Repeat("[", 4_000))) + "." + parts[1] + "." + parts[2],
		"an encrypted one":        "Bearer " + encode([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "....",
		"letters of Latin-1":      "Bearer \xe9\xe9\xe9",
		"a direction mark":        "Bearer \xe2\x80\xae" + s.credential,
		"63 hexadecimal digits":   "Bearer " + strings.Repeat("a", 63),
		"65 hexadecimal digits":   "Bearer " + strings.Repeat("a", 65),
	} {
		rows = append(rows, attack{
			name: name, text: releaseLine + "\r\n" + s.host() + authorization + ": " + value + "\r\n" + s.token() + s.marks() + "\r\n", want: []int{401},
		})
	}
	for name, value := range map[string]string{"NUL": s.credential + "\x00", "a carriage return": s.credential[:40] + "\r" + s.credential[40:], "an escape": "\x1b" + s.credential} {
		rows = append(rows, malformed(name, releaseLine+"\r\n"+s.host()+authorization+": Bearer "+value+"\r\n"+s.token()+s.marks()+"\r\n"))
	}
	return append(rows,
		malformed("a line break", releaseLine+"\r\n"+s.host()+authorization+": Bearer "+s.credential[:40]+"\r\n"+s.credential[40:]+"\r\n"+s.token()+"\r\n"),
		attack{name: "64 hexadecimal digits", want: []int{403},
			text: releaseLine + "\r\n" + s.host() + authorization + ": Bearer " + strings.Repeat("a", 64) + "\r\n" + s.token() + s.marks() + "\r\n"},
	)
}

// foreignHeaders change what a request is at some servers, and here nothing.
func foreignHeaders(s *siege) []attack {
	var rows []attack
	for name, header := range map[string]string{
		"another method":       "X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE\r\nX-Method-Override: DELETE\r\n",
		"another path":         "X-Original-URL: /locks/other\r\nX-Rewrite-URL: /locks/other\r\n",
		"another address":      "X-Forwarded-For: " + s.mark + "\r\nForwarded: for=" + s.mark + "\r\nX-Real-IP: " + s.mark + "\r\nTrue-Client-IP: " + s.mark + "\r\n",
		"another host":         "X-Forwarded-Host: " + s.mark + "\r\nX-Host: " + s.mark + "\r\nX-Forwarded-Proto: " + s.mark + "\r\n",
		"another project":      "X-Project-Id: " + s.mark + "\r\nX-Volcano-Project-Id: " + s.mark + "\r\nX-Role: service_role\r\n",
		"a connection option":  "Connection: Authorization, X-Volcano-Lock-Token, X-Volcano-Request-Id\r\n",
		"an upgrade":           "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\nSec-WebSocket-Version: 13\r\n",
		"an upgrade to HTTP/2": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
		"a range":              "Range: bytes=0-0\r\nIf-Range: x\r\n",
		"conditions":           "If-None-Match: *\r\nIf-Match: x\r\nIf-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\nIf-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n",
		"what it accepts":      "Accept: text/html\r\nAccept-Encoding: gzip\r\nAccept-Language: " + s.mark + "\r\nTE: trailers, chunked\r\n",
		"where it comes from":  "Origin: null\r\nReferer: " + s.mark + "\r\n",
		"how far it may go":    "Max-Forwards: 0\r\n",
		"a nearby spelling":    "Content_Length: 5\r\nTransfer_Encoding: chunked\r\n",
	} {
		rows = append(rows, attack{name: name, text: s.request("GET /locks/key HTTP/1.1", header), want: []int{200}})
	}
	return append(rows, attack{
		name: "the connection is to close and to stay", closed: true, want: []int{200},
		text: s.request("GET /locks/key HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"),
	})
}
