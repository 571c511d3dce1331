package checksum

import (
	"strings"
	"testing"
)

// CRC-32C gives the digits its published check value; files are read by other programs, so that it may not change.
func TestCheckValue(t *testing.T) {
	const text, want = "123456789", 0xe3069283
	n, read, err := Read(strings.NewReader(text))
	if Of([]byte(text)) != want || Add(Of([]byte(text[:4])), []byte(text[4:])) != want || read != want || n != 9 ||
		err != nil {
		t.Errorf("%x of %d bytes, %v", read, n, err)
	}
}
