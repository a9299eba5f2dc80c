/** Protocol of a TLS handshake in which a certificate authority validates a name (RFC 8737 6.2). */
export const ACME_TLS = 'acme-tls/1'
