const HTML =
  /^<(?:!doctype\s+html|html|head|body|title|meta|div|span|p|h[1-6]|a|b|br|table|form|section|main|style|script|!--)\b/i
const XML = /^<(?:\?xml\b|[A-Za-z_][\w.-]*(?::[\w.-]+)?[\s/>])/

/**
 * The media type of a body whose author named none, from the text as it stands in the policy.
 *
 * What `${…}` puts in is never looked at: a client that chooses the text must not choose that a browser reads it as HTML.
 */
export function mediaTypeOf(source: string): string {
  const text = source.trim()
  if (looksLikeJson(text)) return 'application/json'
  if (HTML.test(text)) return 'text/html; charset=utf-8'
  if (XML.test(text) && text.endsWith('>')) return 'application/xml'
  return 'text/plain; charset=utf-8'
}

/** With `${…}` in it the whole is known too late to be parsed, so its brackets decide. */
function looksLikeJson(text: string): boolean {
  if (!(text.startsWith('{') && text.endsWith('}')) && !(text.startsWith('[') && text.endsWith(']'))) return false
  return text.includes('${') || isJson(text)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}
