package auth

import "time"

// KeyPace lets a test have a quicker, or a slower, pace.
type KeyPace struct{ Refresh, Retry, CoolDown, Patience, Timeout time.Duration }

// OpenKeyURLPaced is OpenKeyURL at another pace; zero means the usual.
func OpenKeyURLPaced(address string, p KeyPace) (*KeyURL, error) {
	pace := usualKeyPace
	for field, wanted := range map[*time.Duration]time.Duration{
		&pace.refresh: p.Refresh, &pace.retry: p.Retry, &pace.coolDown: p.CoolDown,
		&pace.patience: p.Patience, &pace.timeout: p.Timeout,
	} {
		if wanted > 0 {
			*field = wanted
		}
	}
	return openKeyURL(address, pace)
}
