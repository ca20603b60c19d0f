"""Record everything about rights and admission but LimitRanges, which `record.admission.limits` records."""

from record.admission.recorder import main

main()
