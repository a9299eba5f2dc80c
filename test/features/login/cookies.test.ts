import { randomBytes, randomInt } from 'node:crypto'
import t from 'tap'
import { newAttempt, openAttempt, pathInState, sealAttempt, Vault } from '../../../src/features/login/attempt-state.js'
import { CookieStyle } from '../../../src/features/login/cookies.js'
import { decodeSession, encodeSession, type Session } from '../../../src/features/login/session.js'
import { joinPieces, LONGEST_SESSION, setPieces } from '../../../src/features/login/sessions.js'
import { HeaderFields } from '../../../src/flow/headers.js'
import { dropLoginCookies, loginCookies } from '../../../src/flow/reserved-paths.js'
import { readState } from '../../../src/policy/login-selection.js'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const session: Session = {
  id: 'id',
  client: 'client',
  begun: 1,
  ends: 9,
  checked: 2,
  profile: { id: 'u', name: 'Ann Ö "x";', email: 'a@b.test', emails: ['a@b.test'] },
  teams: ['a/b'],
  organizations: ['a'],
  listed: 'mark',
  accessToken: 'access',
  refreshToken: 'refresh',
  expiresAt: 3,
  number: 0,
  attributes: {},
  sid: 'sid',
  identityToken: 'identity'
}

t.test('a sealed value opens in its realm, for its purpose, and only as it was', async (t) => {
  const key = randomBytes(32)
  const vault = new Vault([key], 'realm')
  const sealed = vault.seal(encodeSession(session), 'session')
  t.same(decodeSession(vault.open(sealed, 'session') ?? ''), session)
  t.match(sealed, /^[\w-]+$/)
  t.equal(vault.open(sealed, 'attempt'), undefined)
  t.equal(new Vault([key], 'other realm').open(sealed, 'session'), undefined)
  t.equal(new Vault([randomBytes(32)], 'realm').open(sealed, 'session'), undefined)
  t.equal(new Vault([randomBytes(32), key], 'realm').open(sealed, 'session'), encodeSession(session))
  t.not(vault.seal('same', 'session'), vault.seal('same', 'session'))
  for (let i = 0; i < sealed.length; i++) {
    const other = ALPHABET[(ALPHABET.indexOf(sealed[i] as string) + 1 + randomInt(62)) % 64]
    const changed = sealed.slice(0, i) + other + sealed.slice(i + 1)
    if (changed !== sealed && vault.open(changed, 'session') !== undefined) t.fail(`character ${i} does not matter`)
    if (vault.open(sealed.slice(0, i), 'session') !== undefined) t.fail(`opens when cut at ${i}`)
  }
  for (const more of ['A', '=', ' ', '.', '%', '\n', 'ä']) t.equal(vault.open(sealed + more, 'session'), undefined)
  for (let i = 0; i < 2_000; i++) {
    const noise = randomBytes(randomInt(120)).toString('latin1')
    if (vault.open(noise, 'session') !== undefined) t.fail('noise opens')
  }
  const mark = vault.mark('text')
  t.ok(vault.isMarked('text', mark))
  for (const [text, other] of [
    ['texu', mark],
    ['text', mark.slice(1)],
    ['text', ''],
    ['text', vault.mark('')]
  ] as const) {
    t.notOk(vault.isMarked(text, other))
  }
})

t.test('an attempt belongs to its state and ends after ten minutes', async (t) => {
  const vault = new Vault([randomBytes(32)], 'realm')
  const gate = { tag: vault.tag, mark: '0123abcd' }
  const begin = (path: string) =>
    newAttempt(vault, gate.mark, { round: 1, redirectUri: 'https://a.test/cb', path, begun: 1_000 })
  const long = begin(`/${'x'.repeat(2_000)}`)
  t.same(openAttempt(vault, sealAttempt(vault, long), long.state, 1_000), long, 'the cookie has what no URL carries')
  t.ok(long.state.length < 100)
  const attempt = begin('/x')
  const sealed = sealAttempt(vault, attempt)
  t.ok(sealed.length < 400)
  t.same(openAttempt(vault, sealed, attempt.state, 600_999), attempt)
  t.equal(pathInState(vault, attempt.state), '/x')
  t.equal(pathInState(new Vault([randomBytes(32)], 'realm'), attempt.state), undefined)
  t.equal(openAttempt(vault, sealed, attempt.state, 601_000), undefined)
  t.equal(openAttempt(vault, sealed, begin('/x').state, 1_000), undefined)
  t.same(readState(attempt.state), { ...gate, id: attempt.id, round: 1 })
  for (const state of ['', 'x', `${attempt.state}!`, attempt.state.slice(1), ` ${attempt.state}`])
    t.equal(readState(state), undefined)
  t.equal(attempt.nonce.length, 32)
  t.equal(attempt.verifier.length, 43, 'RFC 7636 4.1: at least 43 characters')
})

t.test('pieces: whatever length comes back, and nothing else', async (t) => {
  const style = new CookieStyle('p.', 'sl0123456789ab', true, undefined)
  let jar = new Map<string, string>()
  for (const length of [10, 3_500, 3_501, LONGEST_SESSION, 9_000, 1, 7_000, 5]) {
    const text = randomBytes(length).toString('base64url').slice(0, length)
    const next = new Map(jar)
    for (const line of setPieces(style, text, jar, 60)) {
      t.ok(line.split(';')[0]?.length ?? 0 < 4_000)
      t.match(line, /; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=\d+$/)
      const [pair = '', ...attributes] = line.split('; ')
      const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
      if (attributes.includes('Max-Age=0')) next.delete(name)
      else next.set(name, value)
    }
    t.equal(joinPieces(style, next), text, `${length} characters`)
    for (const name of next.keys()) {
      const without = new Map(next)
      without.delete(name)
      t.not(joinPieces(style, without), text)
    }
    jar = next
  }
  t.throws(() => setPieces(style, 'x'.repeat(LONGEST_SESSION + 1), jar, 60), RangeError)
  for (const first of ['99999999.x', '-1.x', 'NaN.x', '1e3.x', '.x', 'Infinity.x']) {
    t.ok(joinPieces(style, new Map([[style.session, first]])).length < 10, first)
  }
})

t.test('our cookies are found and taken out, all others stay as they are', async (t) => {
  const ours = [
    'sluice.session.sl0123456789ab',
    '__Host-session.sl0123456789ab.3',
    '__Secure-a.b.activity.slffffffffffff',
    'nonce.sl0123456789ab.0123456789ab'
  ]
  const others = [
    'session',
    'sluice.session',
    'session.sl',
    'session.sl0123456789aG',
    'x',
    'a.slb',
    'SESSION.SL0123456789AB',
    'session.sl0123456789ab.x_y'
  ]
  for (let i = 0; i < 2_000; i++) {
    const pairs = Array.from({ length: randomInt(8) }, (_, n) => {
      const from = randomInt(2) === 0 ? ours : others
      return `${from[randomInt(from.length)]}=v${n}`
    })
    const at = randomInt(pairs.length + 1)
    const lines = [pairs.slice(0, at), pairs.slice(at)].filter((line) => line.length > 0).map((line) => line.join('; '))
    const list = lines.flatMap((line) => ['Cookie', line])
    const jar = loginCookies(['Host', 'a', ...list, 'X', 'y'])
    const wanted = pairs.filter((pair) => ours.includes(pair.split('=')[0] as string))
    if (jar.size !== new Set(wanted.map((pair) => pair.split('=')[0])).size) t.fail(list.join())
    const first = wanted[0]?.split('=') ?? []
    if (first[0] !== undefined && jar.get(first[0]) !== first[1]) t.fail('the first one of a name counts')
    const headers = new HeaderFields(['Host', 'a', ...list])
    dropLoginCookies(headers)
    const kept = headers.values('cookie').join('; ')
    if (kept !== pairs.filter((pair) => !wanted.includes(pair)).join('; ')) t.fail(`${list.join()} became ${kept}`)
  }
  const untouched = ['Cookie', 'a=b;c=d ; ;e']
  const headers = new HeaderFields(untouched)
  dropLoginCookies(headers)
  t.same(headers.list, untouched)
})
