// Package auth turns the text of a credential into a Principal, or into a
// Refusal that says what was wrong with it. It also mints credentials.
//
// A credential is what a client sends after "Authorization: Bearer". It is a
// JSON Web Token (JWT): a header, claims and a signature, each in base64url,
// joined by dots. The claims say who the client is; the signature proves that
// the owner of a configured key said so.
//
//	Kind                        Looks like                      Needs                   Manages locks
//	service-role key            sk- and a JWT, or the bare JWT  project_id              with the permission * or locks.manage
//	anon key                    ak- and a JWT, or the bare JWT  project_id              never
//	auth-user access token      JWT                             project_id and exp      never
//	platform token              64 hex digits, or a JWT                                 never
//
// The claim role decides the kind: service_role, anon, authenticated or
// platform. A prefix may only confirm it. Whatever fits no row is refused.
//
// 64 hexadecimal digits are taken for a platform token by their look alone:
// nothing here can verify them, so such a Principal has no project and must be
// granted nothing. Knowing the kind only makes the answer better: "not for
// this" instead of "who are you?".
//
// # Claims
//
//	role         the kind
//	project_id   a UUID in its 36-character form, not the nil UUID
//	permissions  array of strings; a service-role key without it has ["*"], an empty array grants nothing
//	jti          key id, for audit and revocation
//	sub          user id
//	exp          first moment at which the credential no longer counts
//	nbf          first moment at which it counts
//	iat          when it was made; checked for being a time, otherwise not used
//	iss, aud     must be there and match where the configuration names an issuer or an audience; aud may list several
//
// Other claims are ignored. Clocks get no leeway.
//
// # What is strict, and why
//
// Two programs that read the same token differently are a way in: one of them
// checks a claim that the other never sees. So there is one way to read a
// token here, and everything else is refused:
//
//   - a member given twice, or once more in other letters (role and ROLE), and
//     a known member in other letters alone: JSON libraries disagree on which
//     of them counts;
//   - null, or a value of another type, for a known member: it would pass for
//     a claim that is not there, such as an exp that never comes;
//   - times that are not numbers, or lie outside of the years 1970 to 9999:
//     turning 1e300 into a date yields any date at all;
//   - line breaks, padding and stray bits in the base64url, which decoders
//     like to skip, and bytes that are not UTF-8: one token, one text;
//   - crit in the header: it demands an extension, and none is known here;
//   - more than [MaxLength] bytes, or deeply nested values: work for nothing.
//
// # Keys
//
// Every key has one algorithm: a secret HS256, an RSA key RS256, a P-256 key
// ES256, an Ed25519 key EdDSA. A token picks among the keys of the algorithm
// that it names; it can never make a public key serve as a secret, and the
// algorithm "none" has no key. Secrets have at least [MinSecretBytes] bytes,
// RSA keys at least 2048 bits.
//
// A token with a key id (kid) is checked against the one key of the JSON Web
// Key Set with that id and algorithm. A token without is checked against the
// configured secrets (several of them while one replaces the other) and the
// keys of the set that have no id. Keys are only ever looked up in tables:
// header members that point to keys elsewhere, such as jku or x5u, are ignored.
//
// Further keys may come from a set at a URL, a [KeyURL], by the same rules and
// one more: no secrets, for what is published is none. The URL cannot replace
// a key of the configuration: where both have the same id and algorithm, the
// configured key is the one. While the URL has not given a set yet, its
// credentials are refused like those of any unknown key. A set without a key
// for signatures is refused too, so to withdraw the last key, publish another.
//
// A key set with a mistake in it is refused as a whole, so that the mistake is
// found at start and not by a user. Keys with a use other than sig, or with
// key_ops but not verify among them, are not meant for checking signatures and
// are ignored. A private key is refused: a gateway that cannot sign with it
// cannot lose it.
//
// # What it does not do
//
// Nothing is revoked here: a Principal says what its credential proved at one
// moment. Whoever keeps it must watch ExpiresAt, the keys (a [Cache] does both)
// and the list of revoked key ids.
package auth
