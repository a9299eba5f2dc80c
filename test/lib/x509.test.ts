import { createPrivateKey, generateKeyPairSync, webcrypto } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import t from 'tap'
import { checkPrivateKey, MAX_PEM, readChain } from '../../src/lib/x509.js'
import { authority, type Identity, issue, x509 } from '../resources/certificates.js'

async function chain(): Promise<{ root: Identity; middle: Identity; leaf: Identity }> {
  const ca = [new x509.BasicConstraintsExtension(true, undefined, true)]
  const root = await authority('CN=Root')
  const middle = await issue({ subject: 'CN=Middle', issuer: root, extensions: ca })
  const leaf = await issue({ subject: 'CN=leaf.example.com', issuer: middle })
  return { root, middle, leaf }
}

const WEAK = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }

const codeOf = (read: ReturnType<typeof readChain>) => (read.ok ? 'ok' : read.code)

t.test('facts of a certificate are read from its leaf', async (t) => {
  const root = await authority('CN=Facts Root')
  const { keyEncipherment, digitalSignature, decipherOnly } = x509.KeyUsageFlags
  const { pem } = await issue({
    subject: 'CN=app.example.com, O=Ex\\, ample, OU=Unit, L=Town, ST=Land, C=DE',
    issuer: root,
    serialNumber: '054ba7',
    extensions: [
      new x509.KeyUsagesExtension(digitalSignature | keyEncipherment | decipherOnly),
      new x509.ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.9', '1.2.3.4'] as never[]),
      new x509.SubjectAlternativeNameExtension([
        { type: 'dns', value: 'app.example.com' },
        { type: 'ip', value: '192.0.2.1' },
        { type: 'email', value: 'a@example.com' },
        { type: 'dns', value: '*.example.com' },
        { type: 'ip', value: '2001:db8::1' }
      ])
    ]
  })
  const read = readChain(pem + root.pem)
  t.match(read, { ok: true, certificates: { length: 2 } })
  if (!read.ok) return
  t.same(read.leaf, {
    commonName: 'app.example.com',
    organization: 'Ex, ample',
    organizationalUnit: 'Unit',
    locality: 'Town',
    province: 'Land',
    country: 'DE',
    issuerCommonName: 'Facts Root',
    serialNumber: '054ba7',
    notBefore: Date.UTC(2026, 0, 1),
    notAfter: Date.UTC(2027, 0, 1),
    keyUsages: ['digitalSignature', 'keyEncipherment', 'decipherOnly'],
    extendedKeyUsages: ['serverAuth', 'OCSPSigning', '1.2.3.4'],
    dnsNames: ['app.example.com', '*.example.com'],
    ips: ['192.0.2.1', '2001:db8::1'],
    keyType: 'ecdsa',
    isAuthority: false
  })
})

t.test('what a certificate does not say is empty, and an expired one is read', async (t) => {
  const { pem } = await issue({
    subject: 'O=Nameless',
    notBefore: new Date('2019-01-01T00:00:00Z'),
    notAfter: new Date('2020-01-01T00:00:00Z')
  })
  const read = readChain(pem)
  t.match(read, {
    leaf: { commonName: '', country: '', keyUsages: [], extendedKeyUsages: [], dnsNames: [], ips: [] }
  })
})

t.test('a chain goes from the leaf up, each one signed by the next', async (t) => {
  const { root, middle, leaf } = await chain()
  const other = await authority('CN=Middle')
  t.equal(codeOf(readChain(leaf.pem + middle.pem + root.pem)), 'ok')
  t.equal(codeOf(readChain(leaf.pem + middle.pem)), 'ok', 'the root need not be there')
  t.equal(codeOf(readChain(middle.pem + leaf.pem)), 'CHAIN_ORDER')
  t.equal(codeOf(readChain(leaf.pem + root.pem)), 'CHAIN_ORDER')
  t.equal(codeOf(readChain(leaf.pem + other.pem)), 'CHAIN_ORDER', 'the name alone is not enough')
  t.equal(codeOf(readChain(`text before\n${leaf.pem}text between\n${middle.pem}`)), 'ok')
})

t.test('each key type is told, and its key belongs to it alone', async (t) => {
  const expected = { ec: 'ecdsa', rsa: 'rsa', ed25519: 'ed25519' } as const
  const stranger = await issue({ subject: 'CN=Stranger' })
  for (const algorithm of ['ec', 'rsa', 'ed25519'] as const) {
    const { pem, key } = await issue({ subject: 'CN=a', algorithm })
    const read = readChain(pem)
    if (!read.ok) throw new Error(read.message)
    const [certificate] = read.certificates
    t.equal(read.leaf.keyType, expected[algorithm])
    t.equal(checkPrivateKey(key, [certificate!]), undefined)
    t.equal(checkPrivateKey(stranger.key, [certificate!])?.code, 'KEY_MISMATCH')
    const object = createPrivateKey(key)
    if (algorithm === 'rsa') {
      t.equal(checkPrivateKey(object.export({ type: 'pkcs1', format: 'pem' }) as string, [certificate!]), undefined)
    }
    if (algorithm === 'ec') {
      const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'
      const sec1 = object.export({ type: 'sec1', format: 'pem' }) as string
      t.equal(checkPrivateKey(sec1, [certificate!]), undefined)
      t.equal(checkPrivateKey(parameters + sec1, [certificate!]), undefined)
    }
    const cipher = { cipher: 'aes-256-cbc', passphrase: 'x', format: 'pem' } as const
    t.equal(
      checkPrivateKey(object.export({ type: 'pkcs8', ...cipher }) as string, [certificate!])?.code,
      'KEY_ENCRYPTED'
    )
    if (algorithm === 'rsa') {
      const old = object.export({ type: 'pkcs1', ...cipher }) as string
      t.match(old, /Proc-Type/)
      t.equal(checkPrivateKey(old, [certificate!])?.code, 'KEY_ENCRYPTED')
    }
  }
})

t.test('what is no certificate or no key is refused with its reason', async (t) => {
  const { pem, key } = await issue({ subject: 'CN=a' })
  const read = readChain(pem)
  if (!read.ok) throw new Error(read.message)
  const certificate = read.certificates[0]!
  const block = (label: string, text: string) => `-----BEGIN ${label}-----\n${text}\n-----END ${label}-----\n`
  for (const [text, code] of [
    ['', 'CERTIFICATE_MISSING'],
    ['hello', 'CERTIFICATE_MISSING'],
    [key, 'CERTIFICATE_IS_KEY'],
    [pem + key, 'CERTIFICATE_IS_KEY'],
    [block('CERTIFICATE', 'AAAA'), 'CERTIFICATE_BROKEN'],
    [block('CERTIFICATE REQUEST', 'AAAA'), 'PEM_LABEL'],
    [block('CERTIFICATE', 'Comment: x\n\nAAAA'), 'PEM_HEADERS'],
    [block('CERTIFICATE', '!!!!'), 'PEM_INVALID'],
    [pem.slice(0, -10), 'PEM_INVALID'],
    [pem + pem.slice(0, -10), 'PEM_INVALID'],
    ['x'.repeat(MAX_PEM + 1), 'TOO_LONG']
  ] as const) {
    t.equal(codeOf(readChain(text)), code, JSON.stringify(text.slice(0, 40)))
  }
  const { privateKey: unusable } = generateKeyPairSync('x25519')
  for (const [text, code] of [
    ['', 'KEY_MISSING'],
    [pem, 'KEY_IS_CERTIFICATE'],
    [block('PRIVATE KEY', 'AAAA'), 'KEY_BROKEN'],
    [block('PUBLIC KEY', 'AAAA'), 'PEM_LABEL'],
    [key + key, 'PEM_LABEL'],
    [unusable.export({ type: 'pkcs8', format: 'pem' }) as string, 'KEY_TYPE']
  ] as const) {
    t.equal(checkPrivateKey(text, [certificate])?.code, code, JSON.stringify(text.slice(0, 40)))
  }
})

t.test('a PEM text is taken only where OpenSSL takes all of it, and a refusal names the line', async (t) => {
  const issuer = await issue({ subject: 'CN=ca', extensions: [new x509.BasicConstraintsExtension(true)] })
  const leaf = await issue({ subject: 'CN=leaf', issuer })
  const [one, two] = [leaf.pem, issuer.pem]
  const lines = one.trimEnd().split('\n')
  const glued = one.trimEnd() + two
  const forms: readonly (readonly [name: string, pem: string, refused?: RegExp])[] = [
    ['as it is', one + two],
    ['CRLF', (one + two).replaceAll('\n', '\r\n')],
    ['spaces at the ends of lines', (one + two).replaceAll('\n', ' \t\n')],
    ['text between', `subject=/CN=leaf\n${one}\nissuer: x\n${two}`],
    ['empty lines inside', one.replace('\n', '\n\n') + two],
    ['no newline at the end', (one + two).trimEnd()],
    ['one line of base64', [lines[0], lines.slice(1, -1).join(''), lines.at(-1), two].join('\n')],
    ['glued blocks', glued, new RegExp(`^line ${lines.length}: `)],
    ['BEGIN in the middle of a line', `x ${one}${two}`, /^line 1: /],
    ['spaces before BEGIN', ` ${one}${two}`, /^line 1: /],
    ['spaces before END', one.replace('-----END', ' -----END') + two, new RegExp(`^line ${lines.length}: `)],
    ['a byte order mark', `\ufeff${one}${two}`, /^line 1: /],
    ['base64 behind BEGIN', one.replace('-----\n', '-----') + two, /^line 1: /],
    ['base64 before END', one.replace(/\n(-----END)/, '$1') + two, new RegExp(`^line ${lines.length - 1}: `)],
    ['text behind END', `${one.trimEnd()} x\n${two}`, new RegExp(`^line ${lines.length}: `)],
    ['carriage returns alone', (one + two).replaceAll('\n', '\r'), /^line 1: /],
    ['four dashes', one.replace('-----END', '----END') + two, new RegExp(`^line ${lines.length}: `)],
    ['another END', one.replace('END CERTIFICATE', 'END TRUSTED') + two, new RegExp(`^line ${lines.length}: `)]
  ]
  for (const [name, pem, refused] of forms) {
    const read = readChain(pem)
    if (!read.ok) {
      t.match(read.message, refused ?? 'taken', name)
      continue
    }
    t.equal(refused, undefined, name)
    t.equal(read.certificates.length, 2, name)
    t.doesNotThrow(() => createSecureContext({ cert: pem, key: leaf.key }), name)
  }
})

t.test('a pair that OpenSSL refuses for TLS is refused before it serves', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 512 })
  const keys = {
    privateKey: await webcrypto.subtle.importKey(
      'pkcs8',
      privateKey.export({ type: 'pkcs8', format: 'der' }),
      WEAK,
      true,
      ['sign']
    ),
    publicKey: await webcrypto.subtle.importKey('spki', publicKey.export({ type: 'spki', format: 'der' }), WEAK, true, [
      'verify'
    ])
  }
  const made = await x509.X509CertificateGenerator.createSelfSigned({ name: 'CN=weak', keys, signingAlgorithm: WEAK })
  const read = readChain(`${made.toString('pem')}\n`)
  if (!read.ok) throw new Error(read.message)
  const refusal = checkPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, read.certificates)
  t.match(refusal, { code: 'CERTIFICATE_UNUSABLE', message: /KEY_TOO_SMALL/ })
})

t.test('a bundle of broken blocks costs no more than its length', async (t) => {
  const hostile = '-----BEGIN CERTIFICATE-----\n'.repeat(2000) + '-'.repeat(4000)
  const begin = process.hrtime.bigint()
  t.equal(codeOf(readChain(hostile)), 'PEM_INVALID')
  t.ok(process.hrtime.bigint() - begin < 500_000_000n, 'within half a second')
})
