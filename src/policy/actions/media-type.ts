const HTML =
  /^<(?:!doctype\s+html|html|head|body|title|meta|div|span|p|h[1-6]|a|b|br|table|form|section|main|style|script|!--)\b/i
const XML = /^<(?:\?xml\b|[A-Za-z_][\w.-]*(?::[\w.-]+)?[\s/>])/

/**
 * The media type of a body whose author named none, from its beginning and end as written in the policy.
 *
 * What `${…}` puts in is never looked at: a client that chooses the text must not choose that a browser reads it as HTML.
 */
export function mediaTypeOf(source: string): string {
  const text = source.trim()
  if ((text.startsWith('{') && text.endsWith('}')) || (text.startsWith('[') && text.endsWith(']'))) {
    return 'application/json'
  }
  if (HTML.test(text)) return 'text/html; charset=utf-8'
  if (XML.test(text) && text.endsWith('>')) return 'application/xml'
  return 'text/plain; charset=utf-8'
}
