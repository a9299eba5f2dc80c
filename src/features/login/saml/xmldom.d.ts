/** The part of xmldom that is used. Its own declarations bring those of a browser, which no other file may see. */
declare module '@xmldom/xmldom/lib/index.js' {
  export interface XmlNode {
    readonly nodeType: number
    readonly nodeValue: string | null
    readonly localName: string | null
    readonly namespaceURI: string | null
    readonly parentNode: XmlNode | null
    readonly textContent: string | null
    readonly childNodes: ArrayLike<XmlNode>
  }

  export interface XmlElement extends XmlNode {
    readonly attributes: ArrayLike<XmlNode>
    getAttribute(name: string): string
    hasAttribute(name: string): boolean
  }

  export interface XmlDocument extends XmlNode {
    readonly documentElement: XmlElement | null
  }

  export class DOMParser {
    constructor(options: { readonly errorHandler: (level: string, message: string) => void })
    parseFromString(text: string, type: string): XmlDocument
  }
}
