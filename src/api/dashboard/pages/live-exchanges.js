/** Requests that the page of traffic keeps: a bounded number, newest first, shown in batches. */

/** Rows that are kept. */
export const MOST_ROWS = 200
/** Milliseconds from one change of the page to the next, and that after a change with many rows: to paint them is what costs. */
const BATCH = 250
const LONG_BATCH = 500
const MANY = 8
/** Milliseconds from one message to readers of the screen to the next. */
const SPEAK_EVERY = 5_000

/** The exchanges of one filter. */
class LiveExchanges {
  /** @param {string} filter */
  constructor(filter) {
    this.filter = filter
    /** The newest first. @type {readonly any[]} */
    this.rows = []
    /** Received requests that are not in the rows yet, newest last. @type {any[]} */
    this.pending = []
    /** Exchanges since the page was paused; undefined: it is not. @type {number | undefined} */
    this.missed = undefined
    /** Exchanges that the API left out because of the rate, and those that came faster than they were read. */
    this.sampled = 0
    this.dropped = 0
    /** Next announcement for a screen reader. */
    this.spoken = { count: 0, refused: 0, text: '', at: 0 }
    /** @type {() => void} */
    this.changed = () => {}
    /** @type {any} */
    this.timer = undefined
    this.busy = false
    /** Id of the row that was opened, for the way back. */
    this.opened = ''
  }

  /**
   * An event of the stream.
   * @param {string} name
   * @param {any} data
   */
  take(name, data) {
    if (name === 'sampled') this.sampled += data.count
    else if (name === 'dropped') this.dropped += data.count
    else if (name === 'exchange') {
      this.pending.push(data)
      if (this.pending.length > MOST_ROWS) this.pending.splice(0, this.pending.length - MOST_ROWS)
      this.spoken.count++
      if (data.decision.status >= 400 || data.decision.status === 0) this.spoken.refused++
      if (this.missed !== undefined) this.missed++
    } else return
    this.timer ??= setTimeout(
      () => {
        this.timer = undefined
        this.busy = this.pending.length > MANY
        this.settle()
      },
      this.busy ? LONG_BATCH : BATCH
    )
  }

  settle() {
    if (this.missed === undefined && this.pending.length > 0) {
      this.merge(this.pending.reverse())
      this.pending = []
    }
    this.changed()
  }

  /**
   * Takes exchanges among the rows; what is there already stays, unless it knows less.
   * @param {readonly any[]} exchanges
   */
  merge(exchanges) {
    const rows = new Map(this.rows.map((row) => [row.id, row]))
    for (const one of exchanges) {
      const known = rows.get(one.id)
      if (known === undefined || (known.request === undefined && one.request !== undefined)) rows.set(one.id, one)
    }
    const all = [...rows.values()]
    const fresh = all.slice(this.rows.length)
    const next = [...fresh, ...all.slice(0, this.rows.length)]
    const sorted = next.every(({ at }, place) => place === 0 || next[place - 1].at >= at)
    if (!sorted) next.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : a.id < b.id ? 1 : -1))
    this.rows = next.slice(0, MOST_ROWS)
  }

  /** @param {boolean} paused */
  pause(paused) {
    this.missed = paused ? 0 : undefined
    this.spoken = { count: 0, refused: 0, text: paused ? 'Paused' : 'Going on', at: Date.now() }
    this.settle()
  }

  clear() {
    this.rows = []
    this.pending = []
    this.sampled = 0
    this.dropped = 0
    this.settle()
  }

  /** Summary of the requests since the last call, in a few words; limited in frequency. */
  speak() {
    const { spoken } = this
    const now = Date.now()
    if (this.missed !== undefined || spoken.count === 0 || now - spoken.at < SPEAK_EVERY) return spoken.text
    const newest = this.rows[0]
    const { count, refused } = spoken
    const text =
      count === 1 && newest !== undefined
        ? `${newest.decided}: ${newest.method} ${newest.url}`
        : `${count} new ${count === 1 ? 'request' : 'requests'}, ${refused} rejected or failed`
    this.spoken = { count: 0, refused: 0, text, at: now }
    return text
  }
}

/** That of the page which was shown last: its rows are there at once on the way back from one of them. */
let current = new LiveExchanges('')

/**
 * The exchanges of a filter.
 * @param {string} filter
 */
export function exchangesOf(filter) {
  if (current.filter !== filter) {
    clearTimeout(current.timer)
    current = new LiveExchanges(filter)
  }
  return current
}

/**
 * Data that the page has of a request that the process no longer keeps.
 * @param {string} id
 */
export function keptExchange(id) {
  return current.rows.find((row) => row.id === id && row.request !== undefined)
}
