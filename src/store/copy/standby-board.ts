import type { Board, BoardCall, BoardChange, BoardEntry, BoardPage, Published, PublishedEntry } from '../store.js'

/** The board of the store that counts now. Who listens goes on listening when that is another one. */
export class StandbyBoard implements Board {
  #current: Board
  readonly #listening = new Map<symbol, { readonly process: string; readonly heard: () => void; end: () => void }>()

  constructor(current: Board) {
    this.#current = current
  }

  /** From now on this board counts. */
  follow(board: Board): void {
    this.#current = board
    for (const one of this.#listening.values()) {
      one.end()
      one.end = board.listen(one.process, one.heard)
      one.heard()
    }
  }

  publish(process: string, change: BoardChange): Promise<void> {
    return this.#current.publish(process, change)
  }

  clear(process: string): Promise<void> {
    return this.#current.clear(process)
  }

  list(kind: string, page: BoardPage, of: Published): Promise<BoardEntry[]> {
    return this.#current.list(kind, page, of)
  }

  get(kind: string, id: string, of: Published): Promise<PublishedEntry[]> {
    return this.#current.get(kind, id, of)
  }

  call(call: BoardCall): Promise<boolean> {
    return this.#current.call(call)
  }

  waiting(process: string): Promise<BoardCall[]> {
    return this.#current.waiting(process)
  }

  answer(call: Pick<BoardCall, 'id' | 'from'>, text: string): Promise<void> {
    return this.#current.answer(call, text)
  }

  answerTo(id: string): Promise<string | null | undefined> {
    return this.#current.answerTo(id)
  }

  withdraw(id: string): Promise<void> {
    return this.#current.withdraw(id)
  }

  listen(process: string, heard: () => void): () => void {
    const key = Symbol(process)
    const one = { process, heard, end: this.#current.listen(process, heard) }
    this.#listening.set(key, one)
    return () => {
      this.#listening.delete(key)
      one.end()
    }
  }
}
