package auth_test

import "testing"

func BenchmarkVerify(b *testing.B) {
	v := newVerifier(b, withSet(signersSet(b)))
	for _, alg := range []string{"HS256", "RS256", "ES256", "EdDSA"} {
		credential := "sk-" + signers()[alg].sign(b, "key-"+alg, serviceWith(`"permissions":["locks.manage"]`, `"jti":"key_1"`, inAnHour))
		b.Run(alg, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				accepted(b, v, credential)
			}
		})
	}
}
