/** What a reader of a text made of it. */
export type Formed = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly refused: string }

export const formed = (text: string): Formed => ({ ok: true, text })
export const refuse = (refused: string): Formed => ({ ok: false, refused })

const LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/

/** A host name (RFC 1123 2.1) in lower case without blanks around it; a first label `*` stands for any name before the rest. */
export function readHostname(text: string): Formed {
  const name = text.trim().toLowerCase().replace(/\.$/, '')
  if (name.length > 253) return refuse('must not be longer than 253 characters')
  const labels = name.split('.')
  const named = labels[0] === '*' && labels.length > 2 ? labels.slice(1) : labels
  for (const label of named) {
    if (label.length > 63) return refuse('must not have a label longer than 63 characters')
    if (label.includes('*')) return refuse('may have "*" as its whole first label only, before at least two more')
    if (!LABEL.test(label)) return refuse('must be a host name: labels of a-z, 0-9 and inner "-", separated by dots')
    if (label.slice(2, 4) === '--' && !label.startsWith('xn--'))
      return refuse('has a label with "--" that is no xn-- label')
  }
  return formed(name)
}

/** A host name with at least two labels that is no IP address. */
export function readDomain(text: string): Formed {
  const read = readHostname(text)
  if (!read.ok) return read
  const labels = read.text.split('.')
  if (labels.length < 2) return refuse('must be fully qualified, such as app.example.com')
  if (/^\d+$/.test(labels.at(-1) ?? '')) return refuse('must be a name, not an address')
  return read
}
