import type { WebhookRequest } from './scheme.js'

/** Is the body a form (application/x-www-form-urlencoded)? */
export function isForm({ headers }: WebhookRequest): boolean {
  const type = headers.get('content-type')
  return type !== undefined && /^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)
}

/** The fields of a form, or of a query: name → values in order of arrival. */
export function fieldsOf(encoded: string): ReadonlyMap<string, readonly string[]> {
  const fields = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(encoded)) {
    const values = fields.get(name)
    if (values === undefined) fields.set(name, [value])
    else values.push(value)
  }
  return fields
}

/** Names in the order of their UTF-16 code units, as the senders' libraries sort them. */
export function sortedNames(fields: ReadonlyMap<string, readonly string[]>): readonly string[] {
  return [...fields.keys()].sort()
}

export function textOf(body: Uint8Array): string {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
}
