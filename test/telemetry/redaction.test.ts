import t from 'tap'
import type { Flow } from '../../src/flow/flow.js'
import { RequestTarget } from '../../src/flow/target.js'
import { isSensitive, redact, redactUrl, shownQuery } from '../../src/telemetry/redaction.js'
import { fastGrowth } from '../helpers/growth.js'

/** Bytes of the largest head of a request. */
const MOST = 65_536

/** Names under which programs send secrets, and who does. */
const SECRET: Readonly<Record<string, readonly string[]>> = {
  'OAuth, OpenID Connect': [
    ...['code', 'access_token', 'accessToken', 'AccessToken', 'access-token', 'refresh_token', 'id_token', 'idToken'],
    ...[
      'id_token_hint',
      'client_secret',
      'clientSecret',
      'client_assertion',
      'assertion',
      'code_verifier',
      'device_code'
    ],
    ...[
      'deviceCode',
      'user_code',
      'oauth_token',
      'oauth_verifier',
      'oauth_signature',
      'oauth_nonce',
      'nonce',
      'refresh'
    ]
  ],
  'SAML, WS-Federation, CAS': ['SAMLResponse', 'SAMLRequest', 'SAMLart', 'samlresponse', 'wresult', 'ticket'],
  'signed URLs': [
    ...[
      'X-Amz-Signature',
      'x-amz-signature',
      'X-Amz-Credential',
      'X-Amz-Security-Token',
      'AWSAccessKeyId',
      'Signature'
    ],
    ...['X-Goog-Signature', 'GoogleAccessId_signature', 'sig', 'sign', 'hmac', 'Key-Pair-Signature', 'OSSAccessKeyId']
  ],
  keys: [
    ...['key', 'apikey', 'apiKey', 'APIKey', 'api_key', 'api-key', 'x-api-key', 'appkey', 'access_key', 'accesskey'],
    ...['subscription-key', 'auth_key', 'authkey', 'private_key', 'key1', 'X-Auth-Key', 'license[key]']
  ],
  'log in': [
    ...[
      'auth',
      'auth_token',
      'authToken',
      'authorization',
      'X-Auth',
      'jwt',
      'JWT',
      'my_jwt',
      'bearer',
      'token',
      'tokens'
    ],
    ...['csrf', 'csrf_token', 'xsrf', 'authenticity_token', 'magic', 'creds', 'credentials', 'sso', 'ssoTicket']
  ],
  passwords: [
    ...['password', 'passwd', 'user[password]', 'new_password', 'pwd', 'pw', 'pass', 'passphrase', 'passcode', 'pin'],
    ...['otp', 'otpCode', 'totp', 'mfa', 'mfa_code', 'secret', 'appSecret', 'one-time-code']
  ],
  'fields of HTTP': [
    ...['DPoP', 'Sec-WebSocket-Protocol', 'Client-Cert', 'Client-Cert-Chain', 'X-Client-Cert', 'X-SSL-Cert'],
    ...['X-Forwarded-Client-Cert', 'X-ARR-ClientCert', 'X-Client-Certificate', 'Sec-WebSocket-Key', 'Authorization']
  ],
  sessions: ['sid', 'SID', 'connect.sid', 'sessionid', 'session_id', 'sessionId', 'PHPSESSID', 'JSESSIONID', 'sess']
}
const HARMLESS = [
  ...['page', 'q', 'keyword', 'keywords', 'monkey', 'hotkeys', 'signal', 'design', 'signup', 'author', 'authority'],
  ...[
    'coder',
    'encode',
    'codec',
    'unicode',
    'decode',
    'side',
    'inside',
    'outside',
    'pwned',
    'otprint',
    'pinned',
    'shopping'
  ],
  ...['passenger', 'compass', 'refreshed', 'status_code', 'statusCode', 'error_code'],
  ...[
    'country-code',
    'zipCode',
    'sort_key',
    'sortKey',
    'cacheKey',
    'partition_keys',
    'language',
    'state',
    'sigma',
    'id'
  ],
  ...['tls.client_cert.subject.cn', 'client_certificate_id', 'concert', 'Sec-WebSocket-Version']
]

const shown = (query: string, own = false) => {
  const target = RequestTarget.fromRequestLine('GET', `/x?${query}`, 'a.test', 'http')
  t.ok(target, query)
  return shownQuery({ request: { target }, ...(own ? { reservedPath: {} } : {}) } as unknown as Flow)
}

t.test('names that sound like secrets, by whole parts, however they are written', async (t) => {
  for (const [who, names] of Object.entries(SECRET)) {
    for (const name of names) {
      t.equal(isSensitive(name), true, `${who}: ${name}`)
      t.equal(isSensitive(name.toUpperCase()) || /[a-z][A-Z]/.test(name), true, `${who}: ${name.toUpperCase()}`)
    }
  }
  for (const name of HARMLESS) t.equal(isSensitive(name), false, name)
})

t.test('a name is judged alike in queries, metadata and keys of maps', async (t) => {
  for (const name of [...Object.values(SECRET).flat(), ...HARMLESS]) {
    const secret = isSensitive(name)
    const encoded = encodeURIComponent(name)
    t.equal(shown(`a=1&${encoded}=canary&b=2`)?.includes('canary'), !secret, name)
    t.equal(JSON.stringify(redact([{ in: { [name]: 'canary' } }], 0)).includes('canary'), !secret, name)
    t.equal(redactUrl(`https://a.test/p?${encoded}=canary#b`).includes('canary'), !secret, name)
  }
})

t.test('what is no secret stays as it came, and secrets are found behind other spellings', async (t) => {
  t.equal(shown('b=%20x&a&&sig=1;c=2;jwt=x&sid='), 'b=%20x&a&&sig=[redacted];c=2;jwt=[redacted]&sid=')
  t.equal(shown('s%69g=canary'), 'sig=[redacted]')
  t.equal(shown('s%2569g=1&x=%zz'), 's%2569g=1&x=%zz', 'another name')
  t.equal(shown('next=%2Fcb%3Fcode%3Dcanary%26a%3D1&a=1'), 'next=[redacted]&a=1')
  t.equal(shown('next=%252Fcb%253F%2563ode%253Dcanary'), 'next=[redacted]')
  t.equal(shown('next=/cb?code=canary'), 'next=[redacted]')
  t.equal(shown('next=/cb?page=2&k%FFey=1'), 'next=/cb?page=2&k%FFey=1')
  t.equal(shown('code=a&state=b', true), 'code=[redacted]&state=[redacted]')
  t.equal(shown('code=a&state=b'), 'code=[redacted]&state=b')
  t.equal(redactUrl('https://a.test/#access_token=canary'), 'https://a.test/#access_token=[redacted]')
  t.equal(redactUrl('text/html'), 'text/html')
})

t.test('a name is judged in time that grows with its length alone', async (t) => {
  const digits = (size: number) => `key-${'7'.repeat(size)}x`
  t.equal(await fastGrowth(MOST, digits, isSensitive), undefined, 'field')
  const written: Readonly<Record<string, (text: string) => unknown>> = {
    query: (name) => redactUrl(`/?${name}=1`),
    'encoded query': (name) => redactUrl(`/?a=${encodeURIComponent(`/?${name}=1`)}`),
    'key of JSON': (name) => redact({ [name]: 1 }, 0)
  }
  for (const [where, run] of Object.entries(written)) t.equal(await fastGrowth(MOST, digits, run), undefined, where)
  t.equal(isSensitive(`key${'7'.repeat(MOST)}`), true, 'a number behind it hides no name')
  t.equal(isSensitive(`key${'7'.repeat(MOST)}x`), false)
})
