import type { Refusal } from './batches.js'
import { objectsOf, wordOf } from './json-answer.js'

/**
 * What an answer with one result for each record says: those with an `ErrorCode` were refused. Undefined when all were taken.
 * An answer that has not a result for each of them is not believed.
 */
export function refusedRecords(results: unknown, records: number): Refusal | undefined {
  const list = objectsOf(results)
  if (list.length !== records) return { message: 'the service did not say what became of each record' }
  const places = list.flatMap(({ ErrorCode: code }, place) => (code == null ? [] : [place]))
  const [first] = places
  if (first === undefined) return undefined
  const code = wordOf(list[first]?.ErrorCode)
  return { message: `the service refused ${places.length} of ${records} records${code && ` (${code})`}`, places }
}
