/** What a reader made of a written value. `refused` says what is allowed. */
export type Reading = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly refused: string }

export const ok = (value: unknown): Reading => ({ ok: true, value })
export const refuse = (refused: string): Reading => ({ ok: false, refused })
