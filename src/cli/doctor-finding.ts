/** One result of `sluice doctor`. */
export interface Finding {
  /** Checked subject: `data`, `keys`, `store`, … */
  readonly check: string
  /** `error`: a start fails, or the process soon has problems. `warning`: it works, but an action is advisable. */
  readonly status: 'ok' | 'warning' | 'error'
  /** Result. Contains no secret. */
  readonly message: string
  /** Advice; undefined for `ok`. */
  readonly help?: string
}

export const fine = (check: string, message: string): Finding => ({ check, status: 'ok', message })
export const doubtful = (check: string, message: string, help: string): Finding => {
  return { check, status: 'warning', message, help }
}
export const wrong = (check: string, message: string, help: string): Finding => {
  return { check, status: 'error', message, help }
}

/** Converts a text of the form `problem; advice` into a finding. */
export function wrongBy(check: string, text: string, help: string): Finding {
  const at = text.indexOf('; ')
  return at < 0 ? wrong(check, text, help) : wrong(check, text.slice(0, at), text.slice(at + 2))
}
