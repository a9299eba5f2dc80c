/** Does this text name a PostgreSQL server, rather than a path? Its form is not looked at. */
export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:/i.test(text)
}
