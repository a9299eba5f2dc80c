import type { Snapshot } from './snapshot.js'

/** The one place that says which snapshot is current. Readers take it once per exchange and keep it. */
export class SnapshotHolder {
  #current: Snapshot

  constructor(first: Snapshot) {
    this.#current = first
  }

  current(): Snapshot {
    return this.#current
  }

  /** One assignment: exchanges that began before keep the snapshot they have. */
  swap(next: Snapshot): void {
    this.#current = next
  }
}
