import t from 'tap'
import { issue } from '../../resources/certificates.js'
import { RIGHT as BASE, reader, SamlIdp } from './saml-provider.js'

const idp = await SamlIdp.make()
const stranger = await issue({ subject: 'CN=stranger', algorithm: 'rsa' })
const { read, refused } = reader(idp)

t.test('signatures', async (t) => {
  const xml = idp.response(BASE)
  await refused(
    t,
    'of a key that the message brings along',
    idp.signed(xml, 'Assertion', undefined, stranger),
    /not one of/,
    'keys-changed'
  )
  await refused(t, 'changed after it', idp.signed(xml).replace('>u1<', '>admin<'), /not one of/, 'keys-changed')
  await refused(
    t,
    'with SHA-1',
    idp.signed(xml, 'Assertion', 'http://www.w3.org/2000/09/xmldsig#rsa-sha1'),
    /(Signature|Digest)Method/
  )
  const good = idp.signed(xml)
  const swap = (from: string, to: string) => good.replace(from, to)
  const cases: [string, string, RegExp][] = [
    [
      'HMAC',
      swap('http://www.w3.org/2001/04/xmldsig-more#rsa-sha256', 'http://www.w3.org/2000/09/xmldsig#hmac-sha1'),
      /SignatureMethod/
    ],
    [
      'HMAC with the certificate as its key',
      swap('http://www.w3.org/2001/04/xmldsig-more#rsa-sha256', 'http://www.w3.org/2001/04/xmldsig-more#hmac-sha256'),
      /SignatureMethod/
    ],
    ['none', swap('http://www.w3.org/2001/04/xmldsig-more#rsa-sha256', 'none'), /SignatureMethod/],
    ['an algorithm without a name', swap('http://www.w3.org/2001/04/xmldsig-more#rsa-sha256', ''), /SignatureMethod/],
    [
      'a digest of SHA-1',
      swap('http://www.w3.org/2001/04/xmlenc#sha256', 'http://www.w3.org/2000/09/xmldsig#sha1'),
      /DigestMethod/
    ],
    [
      'XSLT',
      swap('http://www.w3.org/2000/09/xmldsig#enveloped-signature', 'http://www.w3.org/TR/1999/REC-xslt-19991116'),
      /Transform/
    ],
    [
      'XPath',
      swap('http://www.w3.org/2000/09/xmldsig#enveloped-signature', 'http://www.w3.org/TR/1999/REC-xpath-19991116'),
      /Transform/
    ],
    ['of the empty URI', good.replace(/URI="#[^"]*"/, 'URI=""'), /another element/],
    ['without a reference', good.replace(/<ds:Reference.*<\/ds:Reference>/, ''), /several elements/],
    ['with two references', good.replace(/(<ds:Reference.*<\/ds:Reference>)/, '$1$1'), /several elements/],
    ['no value', good.replace(/<ds:SignatureValue>[^<]*/, '<ds:SignatureValue>'), /not one of|cannot be processed/]
  ]
  for (const [name, changed, reason] of cases) {
    t.not(changed, good, name)
    t.match(await read(changed), { kind: 'refused', reason }, name)
  }
})

t.test('signature wrapping', async (t) => {
  const xml = idp.response(BASE)
  /** The parts of a signed response. */
  const parts = (signed: string) => {
    const assertion = /<saml:Assertion.*<\/saml:Assertion>/s.exec(signed)?.[0] ?? ''
    const signature = /<ds:Signature.*<\/ds:Signature>/s.exec(signed)?.[0] ?? ''
    return { assertion, signature, bare: assertion.replace(signature, '') }
  }
  const byResponse = idp.signed(xml, 'Response')
  const whole = parts(byResponse)
  const original = byResponse.replace(whole.signature, '')
  const evilResponse = original.replace(/ID="_r[^"]*"/, 'ID="_evil"').replace('>u1<', '>admin<')
  const signed = idp.signed(xml)
  const { assertion, signature, bare } = parts(signed)
  const evil = bare.replace(/ID="[^"]*"/, 'ID="_evil"').replace('>u1<', '>admin<')
  const put = (inside: string) => signed.replace(assertion, inside)
  const into = (element: string, content: string) => element.replace('</saml:Assertion>', `${content}</saml:Assertion>`)
  const withSignature = (element: string, one: string) => element.replace('</saml:Issuer>', `</saml:Issuer>${one}`)
  const table: [string, string][] = [
    [
      'XSW1: the signed response inside the signature of an evil one',
      withSignature(evilResponse, whole.signature.replace('</ds:Signature>', `${original}</ds:Signature>`))
    ],
    [
      'XSW2: the signed response beside the signature of an evil one',
      withSignature(evilResponse, `${original}${whole.signature}`)
    ],
    ['XSW3: an evil assertion before the signed one', put(`${evil}${assertion}`)],
    ['XSW4: the signed assertion inside an evil one', put(into(evil, assertion))],
    [
      'XSW5: an evil assertion with the signature, the signed one behind it',
      put(`${withSignature(evil, signature)}${bare}`)
    ],
    [
      'XSW6: the signed assertion inside the signature of an evil one',
      put(withSignature(evil, signature.replace('</ds:Signature>', `${bare}</ds:Signature>`)))
    ],
    [
      'XSW7: an evil assertion in Extensions',
      signed.replace('<samlp:Status>', `<samlp:Extensions>${evil}</samlp:Extensions><samlp:Status>`)
    ],
    [
      'XSW8: the signed assertion in an Object of the signature',
      put(withSignature(evil, signature.replace('</ds:Signature>', `<ds:Object>${bare}</ds:Object></ds:Signature>`)))
    ],
    [
      'the same id twice',
      put(`${assertion}`).replace(
        '<samlp:Status>',
        `<samlp:Extensions><a ID="${/ID="([^_][^"]*|_[^r][^"]*)"/.exec(assertion)?.[1]}"/></samlp:Extensions><samlp:Status>`
      )
    ],
    [
      'the same id in another spelling',
      signed.replace('<samlp:Status>', `<samlp:Status Id="${/ID="([^"]*)"/.exec(assertion)?.[1]}">`)
    ],
    ['two signed assertions', put(`${assertion}${assertion.replace(/ID="[^"]*"/, 'ID="_two"')}`)],
    ['an assertion of another namespace', put(`${assertion}<Assertion xmlns="urn:x"/>`)],
    ['a signature of another namespace', signed.replace('<samlp:Status>', '<Signature xmlns="urn:x"/><samlp:Status>')],
    [
      'a signature in another place',
      signed.replace('<samlp:Status>', `<samlp:Extensions>${signature}</samlp:Extensions><samlp:Status>`)
    ],
    ['the signature below the response instead of its assertion', withSignature(put(evil), signature)],
    ['an encrypted assertion', put('<saml:EncryptedAssertion/>')]
  ]
  for (const [name, attack] of table) {
    t.not(attack, signed, name)
    const outcome = await read(attack)
    t.equal(outcome.kind, 'refused', `${name}: ${JSON.stringify(outcome)}`)
    t.not(outcome.kind === 'refused' && outcome.trouble, 'keys-changed', `${name}: refused before its signature`)
  }
})

t.test('what parsers read in two ways', async (t) => {
  const good = idp.signed(idp.response({ ...BASE, nameId: 'admin@example.com.evil.test' }))
  await refused(t, 'a comment in the name', good.replace('admin@example.com', 'admin@example.com<!-- -->'), /comment/)
  await refused(
    t,
    'a processing instruction',
    good.replace('admin@example.com', 'admin@example.com<?a b?>'),
    /processing instruction/
  )
  await refused(t, 'a document type', `<!DOCTYPE samlp:Response>${good}`, /document type/)
  const bomb = `<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">${'bcdefghij'.replace(/./g, (name, i: number) => `<!ENTITY ${name} "${`&${'abcdefghij'[i]};`.repeat(10)}">`)}]>`
  await refused(t, 'an entity bomb', `${bomb}${good.replace('admin@example.com', '&j;')}`, /document type/)
  await refused(
    t,
    'an external entity',
    `<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>${good.replace('admin@', '&x;')}`,
    /document type/
  )
  await refused(
    t,
    'an entity that nobody defined',
    good.replace('admin@example.com', '&x;'),
    /well-formed|not one of/,
    'garbage'
  )
  await refused(t, 'two roots', `${good}${good}`, /well-formed|root/)
  await refused(t, 'an unclosed element', good.replace('</samlp:Response>', ''), /well-formed/)
  await refused(
    t,
    'another document',
    '<samlp:LogoutResponse xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol"/>',
    /no Response/
  )
  await refused(t, 'nothing', '', /well-formed|root/)
  const deep = `${'<a>'.repeat(20_000)}${'</a>'.repeat(20_000)}`
  t.match(
    await read(good.replace('<samlp:Status>', `<samlp:Extensions>${deep}</samlp:Extensions><samlp:Status>`)),
    { kind: /./ },
    'deep nesting ends'
  )
})
