import { DOMParser, type XmlElement, type XmlNode } from '@xmldom/xmldom/lib/index.js'

export type { XmlElement } from '@xmldom/xmldom/lib/index.js'

/** A document that is not accepted. The message contains nothing of the document. */
export class XmlRefused extends Error {}

/** `Node.ELEMENT_NODE`. */
const ELEMENT = 1
/** Elements, text and CDATA sections. */
const PLAIN = new Set([ELEMENT, 3, 4])
/** A declaration (DOCTYPE, ENTITY, …); comments and CDATA sections are not. */
const DECLARATION = /<!(?!--|\[CDATA\[)/
/** The XML declaration, the only text of this form that is not a processing instruction. */
const XML_DECLARATION = /^\uFEFF?<\?xml\s[^>]*\?>/

/**
 * Parses a document without declarations, so that it defines no entity. Throws `XmlRefused` for others, and for every error and warning of
 * the parser.
 */
export function parseXml(text: string): XmlElement {
  if (DECLARATION.test(text)) throw new XmlRefused('the XML has a document type declaration')
  const parser = new DOMParser({
    errorHandler() {
      throw new XmlRefused('the XML is not well-formed')
    }
  })
  const document = parser.parseFromString(text.replace(XML_DECLARATION, '').trimStart(), 'text/xml')
  const root = document.documentElement
  if (root === null || [...children(document)].length !== 1) throw new XmlRefused('the XML has no single root')
  return root
}

/** Yields the elements directly below a node. */
export function* children(node: XmlNode): Generator<XmlElement> {
  for (const child of Array.from(node.childNodes)) if (child.nodeType === ELEMENT) yield child as XmlElement
}

/** Yields an element and all below it, in document order. */
export function* elementsOf(root: XmlElement): Generator<XmlElement> {
  const waiting: XmlElement[] = [root]
  for (let element = waiting.pop(); element !== undefined; element = waiting.pop()) {
    yield element
    waiting.push(...[...children(element)].reverse())
  }
}

/** Returns whether an element has only text and elements: no comment and no processing instruction. */
export function isPlain(element: XmlElement): boolean {
  return Array.from(element.childNodes).every(({ nodeType }) => PLAIN.has(nodeType))
}

/** Returns the children with this name. */
export function named(parent: XmlElement, namespace: string, name: string): XmlElement[] {
  return [...children(parent)].filter((child) => isNamed(child, namespace, name))
}

export function isNamed(element: XmlNode, namespace: string, name: string): boolean {
  return element.localName === name && element.namespaceURI === namespace
}

/** Returns the single child with this name; undefined if there is none. Throws `XmlRefused` for several. */
export function only(parent: XmlElement, namespace: string, name: string): XmlElement | undefined {
  const found = named(parent, namespace, name)
  if (found.length > 1) throw new XmlRefused(`the XML has several elements ${name} in one place`)
  return found[0]
}

/** Returns all text of an element; a comment in it does not shorten the text. */
export function textIn(element: XmlElement | undefined): string {
  return (element?.textContent ?? '').trim()
}

/** Time with a zone (XML Schema dateTime, SAML Core 1.3.3). */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/

/** Returns an attribute's time (ms); undefined if it is missing. Throws `XmlRefused` for another form. */
export function timeIn(element: XmlElement, name: string): number | undefined {
  if (!element.hasAttribute(name)) return undefined
  const text = element.getAttribute(name)
  const time = TIME.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time)) throw new XmlRefused(`the XML has a ${name} that is not a time`)
  return time
}
