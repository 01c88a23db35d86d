// Package middleware is everything HTTP: it turns requests into commands for
// the store, and decisions into the answers of the protocol.
//
// Every request to a lock endpoint passes the same checks in the same order:
// request id, credential, permission, quota, then the rest of the request
// (method, key, lock token, body). Counting and deciding are one call of the
// store, so a request that is authenticated but invalid is counted through
// that call too, with a command that does nothing.
//
// Everything else is forwarded to the upstream, if there is one. A forwarded
// request is an exchange: Forward makes the outgoing request (target, headers,
// identity), net/http's Transport sends it, and the server streams the response
// when the handler has returned. Upload and download are the two bodies on
// their way; they end with the exchange, and the exchange with the client, the
// upstream or the gateway, whoever ends first. What the gateway says to the
// upstream about a request (who it is from, where it came from) is never taken
// from the request, except from proxies that are trusted.
//
// Errors are values of type *Problem until WriteError, the one place that
// writes them; whatever is not a *Problem says nothing to the client and
// everything to the log. Texts are fixed: no error quotes the request.
package middleware
