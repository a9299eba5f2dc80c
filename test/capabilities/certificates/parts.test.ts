import { webcrypto, X509Certificate } from 'node:crypto'
import 'reflect-metadata'
import * as library from '@peculiar/x509'
import t from 'tap'
import { retryAfterOf } from '../../../src/capabilities/certificates/acme-transport.js'
import { ChallengeTable } from '../../../src/capabilities/certificates/challenges.js'
import {
  renewalOf,
  renewalTime,
  retryBefore,
  retryDelay,
  shortestUse,
  suggestedTime
} from '../../../src/capabilities/certificates/renewal-times.js'
import { Leases } from '../../../src/control/cluster/leases.js'
import { renewalIdOf } from '../../../src/lib/x509.js'
import { LETSENCRYPT, Managed } from './managed.js'

t.test('renewal is due by two thirds of a life, by half of a short one, and not much before', async (t) => {
  const day = 86_400_000
  for (let i = 0; i < 1000; i++) {
    const begin = Math.floor(i * 12_345_678)
    const life = day * (1 + (i % 400))
    const share = (renewalTime(begin, begin + life, (i % 100) / 100) - begin) / life
    const [from, until] = life < 10 * day ? [0.46, 0.5] : [0.6, 0.66667]
    t.ok(share > from && share <= until) || t.fail(`${share} of ${life}`)
  }
  t.equal(renewalTime(1000, 500, 0.5), 1000, 'a life that is none')
})

t.test('a suggested time is taken within its window, and leaves a tenth of the life', async (t) => {
  const validity = { notBefore: 0, notAfter: 1000 }
  t.equal(suggestedTime({ start: 100, end: 300 }, validity, 0.25), 150)
  t.equal(suggestedTime({ start: 100, end: 300 }, validity, 0), 100)
  t.equal(suggestedTime({ start: -500, end: -300 }, validity, 0.5), -400, 'it may be past')
  t.equal(suggestedTime({ start: 800, end: 2_000 }, validity, 0.9), 900)
  t.equal(suggestedTime({ start: 5_000, end: 6_000 }, validity, 0.1), 900)
})

t.test('certificates that are to be replaced at once in a row are kept longer and longer', async (t) => {
  const hour = 3_600_000
  const validity = { notBefore: 0, notAfter: 100 * hour }
  const kept = [0, 1, 2, 3, 4, 5, 60].map((hurried) => shortestUse(hurried, validity, 0) / hour)
  t.same(kept, [0, 6, 12, 24, 48, 50, 50])
  t.equal(shortestUse(3, validity, 101 * hour), 0)
})

t.test('what an authority knows a certificate by', async (t) => {
  // The example of RFC 9773 4.1, in a certificate whose serial number begins with a bit that is set.
  const keys = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])
  const make = async (extensions: library.Extension[], serialNumber: string) => {
    const made = await library.X509CertificateGenerator.createSelfSigned({
      keys,
      name: 'CN=x',
      serialNumber,
      extensions,
      signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' }
    })
    return new X509Certificate(made.toString('pem'))
  }
  const issuer = new library.AuthorityKeyIdentifierExtension('69885b6b87464041e1b37b847ba0ae2cde01c8d4')
  t.equal(renewalIdOf(await make([issuer], '0087654321')), 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE')
  t.equal(renewalIdOf(await make([issuer], '07654321')), 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.B2VDIQ')
  t.equal(renewalIdOf(await make([], '01')), undefined)
})

t.test('delays double, stop at half a day, and are never shorter than asked', async (t) => {
  for (let failures = 1; failures < 2000; failures++) {
    const wait = retryDelay(failures, 0.999)
    t.ok(wait >= 60_000 && wait <= 12 * 3_600_000 * 1.2) || t.fail(`${failures}: ${wait}`)
    t.ok(retryDelay(failures, 0, 90_000_000) >= 90_000_000)
  }
})

t.test('no certificate is renewed at once or after its end, whatever the clock says', async (t) => {
  const life = 90 * 86_400_000
  const validity = { notBefore: 0, notAfter: life }
  for (let i = 0; i < 2_000; i++) {
    const now = Math.round((i / 1_000 - 1) * life + i)
    const { at, repeats } = renewalOf(validity, now, i % 30, (i % 10) / 10)
    t.ok(at - now >= 60_000) || t.fail(`${now}: at once`)
    if (now < life - 86_400_000) t.ok(at <= life) || t.fail(`${now}: ${at} is after its end`)
    t.ok(repeats === 0 || repeats === (i % 30) + 1) || t.fail(`${repeats}`)
  }
})

t.test('a retry comes before the certificate in use ends, unless the authority asked for patience', async (t) => {
  const hour = 3_600_000
  const validity = { notBefore: 0, notAfter: 10 * hour }
  t.equal(retryBefore(12 * hour, 0, validity, 0), 5 * hour)
  t.equal(retryBefore(hour, 0, validity, 0), hour)
  t.equal(retryBefore(12 * hour, 12 * hour, validity, 0), 12 * hour)
  t.equal(retryBefore(12 * hour, 0, validity, 10 * hour - 1), 60_000)
  t.equal(retryBefore(12 * hour, 0, validity, 10 * hour), 12 * hour, 'it has ended')
  t.equal(retryBefore(12 * hour, 0, undefined, 0), 12 * hour)
})

t.test('Retry-After in seconds, as a date, and as anything else', async (t) => {
  const now = Date.UTC(2026, 0, 1)
  t.equal(retryAfterOf('120', now), 120_000)
  t.equal(retryAfterOf(new Date(now + 5_000).toUTCString(), now), 5_000)
  t.equal(retryAfterOf(new Date(now - 5_000).toUTCString(), now), 0)
  t.equal(retryAfterOf('99999999', now), 86_400_000, 'a day at most')
  for (const text of [undefined, '', '-1', 'soon', '1e9', '١٢']) t.equal(retryAfterOf(text, now), 0, String(text))
})

t.test('a challenge is answered for its host and its path alone', async (t) => {
  const challenges = new ChallengeTable()
  const path = '/.well-known/acme-challenge/token'
  t.equal(challenges.answer('a.test', path), undefined)
  challenges.set('rd_1', [{ type: 'http-01', host: 'a.test', token: 'token', value: 'token.print' }])
  t.equal(Buffer.from(challenges.answer('a.test', path) ?? []).toString(), 'token.print')
  const others = [
    '',
    '/',
    `${path}/`,
    `${path}x`,
    '/.well-known/acme-challenge/',
    '/.well-known/acme-challenge/..',
    '/x'
  ]
  for (const other of others) t.equal(challenges.answer('a.test', other), undefined, other)
  for (const host of ['b.test', 'x.a.test', '', 'a.test ']) t.equal(challenges.answer(host, path), undefined, host)
  challenges.set('rd_2', [{ type: 'dns-01', name: 'x.acme.test', value: 'v' }])
  challenges.set('rd_3', [{ type: 'dns-01', name: 'x.acme.test', value: 'w' }])
  t.same(challenges.texts('x.acme.test'), ['v', 'w'], 'a name and its wildcard at once')
  challenges.set('rd_1', [])
  challenges.set('rd_2', [])
  t.equal(challenges.answer('a.test', path), undefined)
  t.same(challenges.texts('x.acme.test'), ['w'])
})

t.test('domains of a process without the duty are left alone', async (t) => {
  const managed = await Managed.open(t, { authority: 'no' })
  const other = new Leases({
    store: managed.control.store.outbox,
    clock: managed.clock,
    holder: 'other',
    expiry: 20_000
  })
  await other.hold('certificates')
  const { id } = await managed.create('reserved_domain', { domain: 'a.example.com', ...LETSENCRYPT })
  await managed.certificates.tick()
  t.equal(await managed.status('reserved_domain', id), null)
})

t.test('what the sub-path of the policy leaves behind is cleared away', async (t) => {
  const managed = await Managed.open(t, { authority: 'no' })
  const { id } = await managed.create('reserved_domain', { domain: 'a.example.com', ...LETSENCRYPT })
  await managed.certificates.tick()
  t.not(await managed.status('reserved_domain', id), null)
  await managed.update('reserved_domain', id, { certificate_management_policy: null })
  t.match((await managed.get('reserved_domain', id)).body, {
    certificate_work: null,
    certificate_management_status: null
  })
})
