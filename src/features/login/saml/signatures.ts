import { children, elementsOf, isNamed, isPlain, named, type XmlElement, XmlRefused } from './xml.js'

export const DSIG = 'http://www.w3.org/2000/09/xmldsig#'
const EXCLUSIVE = ['http://www.w3.org/2001/10/xml-exc-c14n#', 'http://www.w3.org/2001/10/xml-exc-c14n#WithComments']

/** Algorithms by the element that names them. SHA-1, HMAC and everything that selects other content are missing. */
const ALGORITHMS: Readonly<Record<string, ReadonlySet<string>>> = {
  CanonicalizationMethod: new Set(EXCLUSIVE),
  SignatureMethod: new Set([
    'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
    'http://www.w3.org/2001/04/xmldsig-more#rsa-sha512',
    'http://www.w3.org/2007/05/xmldsig-more#sha256-rsa-MGF1'
  ]),
  DigestMethod: new Set(['http://www.w3.org/2001/04/xmlenc#sha256', 'http://www.w3.org/2001/04/xmlenc#sha512']),
  Transform: new Set(['http://www.w3.org/2000/09/xmldsig#enveloped-signature', ...EXCLUSIVE])
}

/**
 * Checks the form that a response must have before its signatures are verified: one assertion, directly below the root; signatures only of
 * these two, each by its own id, which no other element has; known algorithms. This leaves no second element that a reader could take for
 * the signed one (signature wrapping). Throws `XmlRefused`.
 */
export function checkSignatures(root: XmlElement, assertions: string): void {
  const elements = [...elementsOf(root)]
  const assertion = onlyAssertion(root, elements, assertions)
  if (!elements.every(isPlain)) throw new XmlRefused('the response has a comment or a processing instruction')
  checkIds(elements)
  const signatures = elements.filter(({ localName }) => localName === 'Signature')
  for (const signature of signatures) {
    const owner = signature.parentNode
    if (!isNamed(signature, DSIG, 'Signature') || (owner !== root && owner !== assertion))
      throw new XmlRefused('the response has a signature in another place')
    checkSignature(signature, owner as XmlElement)
  }
  const owners = new Set(signatures.map(({ parentNode }) => parentNode))
  if (owners.size !== signatures.length) throw new XmlRefused('the response has two signatures of one element')
  if (owners.size === 0) throw new XmlRefused('neither the response nor its assertion is signed')
}

function onlyAssertion(root: XmlElement, elements: readonly XmlElement[], namespace: string): XmlElement {
  if (elements.some(({ localName }) => localName === 'EncryptedAssertion' || localName === 'EncryptedID'))
    throw new XmlRefused('the assertion is encrypted, which is not supported')
  const [assertion, ...more] = elements.filter(({ localName }) => localName === 'Assertion')
  if (assertion === undefined) throw new XmlRefused('the response has no assertion')
  if (more.length > 0) throw new XmlRefused('the response has several assertions')
  if (assertion.parentNode !== root || !isNamed(assertion, namespace, 'Assertion'))
    throw new XmlRefused('the response has an assertion in another place')
  return assertion
}

/** Signatures find an element by an id of any spelling. */
function checkIds(elements: readonly XmlElement[]): void {
  const ids = new Set<string>()
  for (const { attributes } of elements) {
    for (const { localName, nodeValue } of Array.from(attributes)) {
      if (localName?.toLowerCase() !== 'id') continue
      const id = nodeValue ?? ''
      if (ids.has(id)) throw new XmlRefused('the response has one id twice')
      ids.add(id)
    }
  }
}

function checkSignature(signature: XmlElement, owner: XmlElement): void {
  const [info, ...infos] = named(signature, DSIG, 'SignedInfo')
  const references = info === undefined ? [] : named(info, DSIG, 'Reference')
  if (infos.length > 0 || references.length !== 1)
    throw new XmlRefused('the response has a signature of several elements')
  const id = owner.getAttribute('ID')
  if (id === '' || references[0]?.getAttribute('URI') !== `#${id}`)
    throw new XmlRefused('the response has a signature of another element')
  const known = new Set(['SignedInfo', 'SignatureValue', 'KeyInfo'])
  if ([...children(signature)].some((child) => !known.has(child.localName ?? '')))
    throw new XmlRefused('the response has a signature with other content')
  for (const element of elementsOf(info as XmlElement)) {
    const algorithms = ALGORITHMS[element.localName ?? '']
    if (algorithms !== undefined && !algorithms.has(element.getAttribute('Algorithm')))
      throw new XmlRefused(`the response has a signature with a ${element.localName} that is not accepted`)
  }
}
