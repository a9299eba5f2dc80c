import { LRUCache } from 'lru-cache'
import { type ReadDocument, readDocument } from './document.js'
import type { Carrier } from './legacy.js'

/** Few: what was read takes many times the memory of its text. In UTF-16 units of text. */
const MOST = { documents: 64, text: 512 * 1024, each: 256 * 1024 }

/**
 * Documents that were read a moment ago, by their text: a write reads one for its check and again for what serves, and many
 * routes have the same text. What is read is shared and never changed.
 */
export class RecentDocuments {
  readonly #documents = new LRUCache<string, ReadDocument>({
    max: MOST.documents,
    maxSize: MOST.text,
    maxEntrySize: MOST.each,
    sizeCalculation: (_document, key) => key.length
  })

  /** As `readDocument`. */
  read(text: string, carrier: Carrier = 'http'): ReadDocument {
    const key = `${carrier} ${text}`
    const known = this.#documents.get(key)
    if (known !== undefined) return known
    const read = readDocument(text, carrier)
    this.#documents.set(key, read)
    return read
  }
}
