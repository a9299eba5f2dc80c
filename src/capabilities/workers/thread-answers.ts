import type { Login } from '../../features/login/service.js'
import { ReplayBook } from '../../features/webhook/replays.js'
import type { Clock } from '../../lib/clock.js'
import type { MadeRecords } from '../../lib/shared-records.js'
import { BUDGET_NUMBERS, budgetName } from '../../proxy/retries.js'
import type { FromTrafficThread, ThreadAnswer, ThreadQuestion, ToTrafficThread } from './thread-protocol.js'

interface AnswersParts {
  readonly clock: Clock
  /** Breakers and retry budgets, which all threads have together. */
  readonly records: MadeRecords
  /** Logins that were ended, and sessions that the store keeps. */
  readonly login: Pick<Login, 'ended' | 'keeper'>
}

/** Decisions that must be unique in the process, made for all workers. */
export class ThreadAnswers {
  readonly #parts: AnswersParts
  readonly #replays = new ReplayBook()

  constructor(parts: AnswersParts) {
    this.#parts = parts
  }

  /** Answers one question. Does not reject: a failure is part of the answer. */
  async answer(
    { serial, question }: Extract<FromTrafficThread, { kind: 'ask' }>,
    send: (answer: ToTrafficThread) => void
  ): Promise<void> {
    try {
      send({ kind: 'answer', serial, value: await this.#decide(question) })
    } catch (error) {
      send({ kind: 'answer', serial, value: false, failed: String(error) })
    }
  }

  /** The delivery of a webhook may come again. */
  release({ identity, once }: Extract<FromTrafficThread, { kind: 'release' }>): void {
    this.#replays.of(identity).release(once)
  }

  /** Forgets deliveries of webhooks that could not come again. */
  sweep(): void {
    this.#replays.sweep(this.#parts.clock.wall())
  }

  async #decide(question: ThreadQuestion): Promise<ThreadAnswer> {
    if (question.about === 'delivery') {
      const { identity, once, now, lasting } = question
      return this.#replays.of(identity).admit(once, now, lasting)
    }
    const { login, records } = this.#parts
    const { ended, keeper } = login
    if (question.about === 'login-session') return await keeper.serve(question.call)
    if (question.about === 'budget') {
      records.of(budgetName(question.key), BUDGET_NUMBERS)
      return true
    }
    for (const session of question.sessions) ended.end(session)
    await ended.keep()
    return true
  }
}
