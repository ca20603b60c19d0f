package main

import (
	"bufio"
	"context"
	"os"
	"strings"
)

// orders gives the lines of standard input as words, and cancels when there are no more.
func orders(cancel context.CancelFunc) <-chan []string {
	given := make(chan []string)
	go func() {
		defer close(given)
		defer cancel()
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			given <- strings.Fields(lines.Text())
		}
	}()
	return given
}
