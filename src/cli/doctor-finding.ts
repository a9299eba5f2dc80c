/** One thing that `sluice doctor` has looked at. */
export interface Finding {
  /** What was looked at: `data`, `keys`, `store`, … */
  readonly check: string
  /** `error`: a start fails, or soon goes wrong. `warning`: it works, and something should be done. */
  readonly status: 'ok' | 'warning' | 'error'
  /** What is so. Holds no secret. */
  readonly message: string
  /** What to do about it; absent where it is fine. */
  readonly help?: string
}

export const fine = (check: string, message: string): Finding => ({ check, status: 'ok', message })
export const doubtful = (check: string, message: string, help: string): Finding => {
  return { check, status: 'warning', message, help }
}
export const wrong = (check: string, message: string, help: string): Finding => {
  return { check, status: 'error', message, help }
}

/** A text of the form `what; what to do` as a finding. */
export function wrongBy(check: string, text: string, help: string): Finding {
  const at = text.indexOf('; ')
  return at < 0 ? wrong(check, text, help) : wrong(check, text.slice(0, at), text.slice(at + 2))
}
