import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { BasicConstraintsExtension, Extension } from '@peculiar/x509'
import t from 'tap'
import { ClientAuthority, findRevoked, MAX_CRL, readRevocations } from '../../src/lib/crl.js'
import { type Identity, issue, revocationList } from '../resources/certificates.js'

const authorityOf = (algorithm: 'ec' | 'rsa' | 'ed25519', subject = 'CN=Clients') =>
  issue({ subject, algorithm, extensions: [new BasicConstraintsExtension(true, undefined, true)] })
const read = (pem: string, { pem: authority }: Identity) => readRevocations(pem, new X509Certificate(authority))

for (const algorithm of ['ec', 'rsa', 'ed25519'] as const) {
  t.test(`${algorithm}: lists of an authority say which serial numbers are revoked`, async (t) => {
    const authority = await authorityOf(algorithm)
    const soon = new Date('2026-12-01T00:00:00Z')
    const one = await revocationList(authority, ['00aB01', '05'], { nextUpdate: soon })
    t.same(read(one, authority), { ok: true, serials: ['5', 'ab01'], nextUpdate: soon.getTime() })
    const other = await revocationList(authority, ['7f'], { nextUpdate: new Date('2027-01-01T00:00:00Z') })
    t.same(read(`${one}\n${other}`, authority), { ok: true, serials: ['5', '7f', 'ab01'], nextUpdate: soon.getTime() })
    t.match(read(await revocationList(authority, []), authority), { ok: true, serials: [] })
    t.match(read(await revocationList(authority, ['01']), authority), {
      ok: true,
      serials: ['1'],
      nextUpdate: undefined
    })
    // Another key under the same name, and the other way round.
    t.match(read(one, await authorityOf(algorithm)), { ok: false, code: 'CRL_ISSUER', message: /list 1/ })
    const der = Buffer.from(one.replace(/-----[^-]+-----/g, ''), 'base64')
    const changed = Buffer.from(der)
    changed[der.indexOf(Buffer.from('ab01', 'hex'))] = 0x2b
    t.match(read(pemOf(changed), authority), { ok: false, code: 'CRL_ISSUER' }, 'a changed list')
  })
}

t.test('what is no whole list of the authority is refused with the reason', async (t) => {
  const authority = await authorityOf('ec')
  const list = await revocationList(authority, ['01'])
  const named = await issue({ subject: 'CN=Others', issuer: authority })
  t.match(read(list, named), { code: 'CRL_ISSUER' })
  t.match(read('', authority), { code: 'CRL_MISSING' })
  t.match(read(authority.pem, authority), { code: 'PEM_LABEL', message: /CERTIFICATE/ })
  t.match(read(`${list}${list.replace('-----END', '-----ENDE')}`, authority), { code: 'PEM_INVALID' })
  t.match(read('-'.repeat(MAX_CRL + 1), authority), { code: 'TOO_LONG' })
  const delta = new Extension('2.5.29.27', true, new Uint8Array([2, 1, 1]))
  t.match(read(await revocationList(authority, ['01'], { extensions: [delta] }), authority), { code: 'CRL_PARTIAL' })
  const number = new Extension('2.5.29.20', false, new Uint8Array([2, 1, 1]))
  t.match(read(await revocationList(authority, ['01'], { extensions: [number] }), authority), { ok: true })
  const der = Buffer.from(list.replace(/-----[^-]+-----/g, ''), 'base64')
  for (let length = 0; length < der.length; length++) {
    const cut = read(pemOf(der.subarray(0, length)), authority)
    if (cut.ok) t.fail(`${length} bytes are no list`)
  }
  for (let i = 0; i < der.length; i++) {
    for (const bits of [0x01, 0x20, 0x80, 0xff]) {
      const wrong = Buffer.from(der)
      wrong[i] = (wrong[i] as number) ^ bits
      if (read(pemOf(wrong), authority).ok) t.fail(`byte ${i} is not covered`)
    }
  }
})

t.test('a list may be long', async (t) => {
  const authority = await authorityOf('ec')
  const serials = Array.from({ length: 400 }, (_, i) => (0x7000_0000 + i).toString(16))
  const found = read(await revocationList(authority, serials), authority)
  t.same(found.ok && found.serials, serials)
})

t.test('a certificate is revoked by the authority that has issued it alone', async (t) => {
  const [authority, other] = [await authorityOf('ec'), await authorityOf('ec')]
  const middle = await issue({ subject: 'CN=Middle', issuer: authority, serialNumber: '77' })
  const of = async (issuer: Identity) =>
    new X509Certificate((await issue({ subject: 'CN=a', issuer, serialNumber: '0ab1' })).pem)
  const [direct, below, between] = [await of(authority), await of(middle), new X509Certificate(middle.pem)]
  const listing = (...revoked: string[]) => [new ClientAuthority(authority.pem, revoked)]
  t.ok(findRevoked(listing('ab1'), [direct]))
  t.notOk(findRevoked(listing('ab2'), [direct]))
  t.notOk(
    findRevoked([new ClientAuthority(other.pem, ['ab1']), ...listing()], [direct]),
    'another key of the same name'
  )
  t.notOk(findRevoked(listing('ab1'), [below, between]), 'the number of another issuer')
  t.ok(findRevoked(listing('77'), [below, between]), 'what stands between')
  t.ok(findRevoked(listing(), [below]), 'what is not seen may be revoked')
  t.notOk(findRevoked([new ClientAuthority(other.pem + middle.pem), ...listing()], [below]), 'one of several of a text')
  t.not(listing('ab1')[0]?.listed, listing()[0]?.listed)
  t.equal(new ClientAuthority(authority.pem).listed, undefined)
})

function pemOf(der: Buffer): string {
  return `-----BEGIN X509 CRL-----\n${der.toString('base64')}\n-----END X509 CRL-----\n`
}
