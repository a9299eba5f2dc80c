import type { RecordedChange } from '../../../control/revision-note.js'
import type { Json } from '../../../lib/json.js'
import type { SiteDifference } from './differences.js'

/** Maximum number of changed things per revision whose differences the history keeps, because reading a page of it loads them. */
const MAX_THINGS = 500

/** Characters of the JSON text of a value that the history keeps. */
const MAX_VALUE = 4_096

/** Changes of a revision of the site file, for the history: the differences that `sluice plan` shows. */
export type SiteHistory = Pick<RecordedChange, 'fields' | 'secrets'>

/** Returns the differences as fields of a change: each thing of the file under its kind and name. Holds no secret. */
export function siteHistory(differences: readonly SiteDifference[], file: string): SiteHistory {
  const fields: Record<string, { before: Json; after: Json }> = {}
  const secrets: string[] = []
  for (const difference of differences.slice(0, MAX_THINGS)) {
    const { change, kind, name } = difference
    const place = `${difference.file ?? file}:${difference.line}`
    const label = `${kind} ${name}`
    if (change === 'added') fields[label] = { before: null, after: place }
    else if (change === 'removed') fields[label] = { before: place, after: null }
    else if (difference.fields.length > 0) fields[label] = { before: side('before'), after: side('after') }
    secrets.push(...difference.secrets.map((field) => `${label} ${field}`))

    function side(which: 'before' | 'after'): Json {
      return Object.fromEntries(difference.fields.map((one) => [one.field, bounded(one[which])]))
    }
  }
  const more = differences.length - MAX_THINGS
  if (more > 0) fields.more = { before: null, after: `${more} further things of the file` }
  return { fields, secrets: secrets.slice(0, MAX_THINGS) }
}

function bounded(value: Json): Json {
  const { length } = JSON.stringify(value)
  return length > MAX_VALUE ? `(${length} characters)` : value
}
