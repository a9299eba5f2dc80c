import t from 'tap'
import { readSaml } from '../../../src/features/login/saml/reading.js'
import { RIGHT as BASE, NOW, reader, type Said, SamlIdp } from './saml-provider.js'

const idp = await SamlIdp.make()
const metadata = await readSaml({ kind: 'metadata', xml: idp.metadata() })
const { read, refused } = reader(idp)

t.test('metadata of an identity provider', async (t) => {
  t.match(metadata, {
    kind: 'metadata',
    provider: { entityId: idp.entityId, certificates: [idp.certificate], signOn: idp.signOn, wantsSigned: false }
  })
  const cases: [string, string, RegExp][] = [
    ['no XML', 'hello', /well-formed|root/],
    ['cut', idp.metadata().slice(0, -20), /well-formed/],
    ['of a service provider', idp.metadata().replaceAll('IDPSSODescriptor', 'SPSSODescriptor'), /no identity provider/],
    ['a certificate that is none', idp.metadata().replace(idp.certificate, 'AAAA'), /certificate/],
    ['with a document type', `<!DOCTYPE a [<!ENTITY b "c">]>${idp.metadata().replace(/^.*\n/, '')}`, /document type/]
  ]
  for (const [name, xml, reason] of cases)
    t.match(await readSaml({ kind: 'metadata', xml }), { kind: 'refused', trouble: 'garbage', reason }, name)
})

t.test('a right response names its user, signed as a whole or in its assertion', async (t) => {
  const attributes = { groups: ['staff', 'a&amp;b'], email: ['ann@example.com'], other: ['1'] }
  const xml = idp.response({ ...BASE, attributes, session: 3_600_000 })
  for (const what of ['Assertion', 'Response'] as const) {
    const outcome = await read(idp.signed(xml, what))
    t.match(outcome, {
      kind: 'user',
      user: {
        nameId: 'u1',
        sessionIndex: 's1',
        attributes: { groups: ['staff', 'a&b'], email: ['ann@example.com'], other: ['1'] },
        once: /^saml\.[\w-]{43}$/,
        expires: NOW + 360_000,
        sessionEnds: NOW + 3_600_000
      }
    })
  }
  const both = idp.signed(idp.signed(xml), 'Response')
  t.match(await read(both), { kind: 'user' }, 'both')
  t.match(await read(xml.replace('a&amp;b', 'a')), { kind: 'refused', reason: /neither/ }, 'unsigned')
})

t.test('what a response must say', async (t) => {
  const cases: [string, Partial<Said>, RegExp, string?][] = [
    ['another audience', { audience: 'https://other.example.com' }, /another audience/],
    ['another recipient', { recipient: 'https://other.example.com/acs' }, /another recipient/],
    ['another destination', { destination: 'https://other.example.com/acs' }, /another destination/],
    ['another issuer', { issuer: 'https://evil.example.com' }, /another identity provider/],
    ['another request', { request: '_other' }, /not the answer to the request/],
    ['no request', { request: undefined }, /not the answer to the request/],
    ['expired', { lasts: -61_000 }, /has expired/],
    ['not yet', { from: 61_000 }, /not valid yet/],
    ['a session that is over', { session: -61_000 }, /is over/],
    ['no user', { nameId: '' }, /no user/],
    ['refused by the identity provider', { status: 'Responder' }, /did not log the user in/, 'denied']
  ]
  for (const [name, said, reason, trouble] of cases)
    await refused(t, name, idp.signed(idp.response({ ...BASE, ...said })), reason, trouble)
  t.match(await read(idp.signed(idp.response({ ...BASE, lasts: -59_000 }))), { kind: 'user' }, 'clocks may differ')
  const { request: _, ...unsolicited } = BASE
  t.match(
    await read(idp.signed(idp.response(unsolicited)), { request: undefined }),
    { kind: 'user' },
    'unsolicited where that is expected'
  )
})
